"""Kernels of testbeds: configuration, overlays of the lab file, and patches."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from twisted.python import log

from netbisect.bisect.model.entities import Boot, Fact, Failure, Kernel
from netbisect.bisect.model.evidence import Evidence, split_kernel_name
from netbisect.bisect.model.revision_key import OVERLAY_MARK, parts_of, patch_of, with_patch
from netbisect.store.db.records import JobRecord
from netbisect.store.git.history import History, NoCommitError
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.evidence import scope_of
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed


class Kernels:
    """Configurations of kernels.

    A kernel with an overlay has a configuration of its own, such as `GENERIC+fix-igb`, and failures
    without the overlay do not count for it. A kernel with a patch also has a revision of its own
    (`bisect/model/revision_key.py`). Methods may read the tree: call them in the database thread.
    """

    def __init__(self, lab: Lab, history: History) -> None:
        self.lab = lab
        self._history = history

    def config_of(self, testbed: Testbed, branch: str, revision: str) -> str:
        """The configuration of a revision's kernel, with overlays and patch.

        Raises HistoryError if the tree cannot be read, and FileError if the lab file has no
        configuration for that branch.
        """
        commit, patch = parts_of(revision)
        fixes = self._overlays.get(commit, [])
        return with_patch(OVERLAY_MARK.join([testbed.config_on(branch), *fixes]), patch)

    def evidence(self, ledger: Ledger, record: JobRecord) -> Evidence:
        """All facts about a job; raises as `config_of`."""
        testbed, branch = self.lab.testbed(record.job.testbed), record.job.branch
        patched = (one for one in scope_of(record).revisions if parts_of(one)[1])
        variants = {
            name: self.config_of(testbed, branch, name) for name in (*self._overlays, *patched)
        }
        config, arch = testbed.config_on(branch), testbed.arch
        return ledger.evidence.gather(record, config=config, arch=arch, variants=variants)

    def newest(self, ledger: Ledger, record: JobRecord, name: str) -> Kernel | None:
        """As `evidence(ledger, record).kernels.get(name)`, with a single statement."""
        testbed = self.lab.testbed(record.job.testbed)
        config = self.config_of(testbed, record.job.branch, split_kernel_name(name)[0])
        return ledger.evidence.kernel(name, config=config, arch=testbed.arch)

    @cached_property
    def _overlays(self) -> dict[str, list[str]]:
        """Names of overlays by revision, in the order of the lab file."""
        found: dict[str, list[str]] = {}
        for overlay in self.lab.source.overlays:
            try:
                stretch = self._history.stretch(overlay.first, overlay.last)
            except NoCommitError as error:  # removed by a forced push
                log.msg(f"the overlay {overlay.name} is not applied: {error}")
                continue
            for revision in stretch:
                found.setdefault(revision, []).append(overlay.name)
        return found


def with_patch_of_decision(ledger: Ledger, fact: Fact, decision: int | None) -> Fact:
    """The fact with the patch in its revision: workers report the commit only.

    The patch is in the configuration of a kernel, and in the decision of a boot or failure.
    """
    if isinstance(fact, Kernel):
        return replace(fact, revision=with_patch(fact.revision, patch_of(fact.config)))
    if isinstance(fact, Boot | Failure) and decision is not None:
        ordered = ledger.actions.get(decision).revision
        commit, patch = parts_of(ordered)
        if patch and fact.revision == commit:
            return replace(fact, revision=ordered)
    return fact
