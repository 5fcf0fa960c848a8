"""Which kernels a testbed runs: of its configuration, with fixes of the lab file and patches."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from netbisect.bisect.model import Boot, Dud, Evidence, Fact, Kernel
from netbisect.bisect.subject import OVERLAY_MARK, parts_of, patch_of, with_patch
from netbisect.store.evidence import scope_of
from netbisect.store.history import History, HistoryError
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked
from netbisect.workers.lab import Lab, Testbed


class Kernels:
    """The stretches of the tree that are known to be broken, and what mends them; and patches.

    A kernel with a fix is of a configuration of its own, such as `GENERIC+fix-igb`: it is never
    taken for one without, nor is what failed without it held against it. With a patch it is of a
    name of its own too (`bisect/subject.py`). Its methods may read the tree, so they are for the
    ledger's thread.
    """

    def __init__(self, lab: Lab, history: History) -> None:
        self.lab = lab
        self._history = history

    def config_of(self, testbed: Testbed, revision: str) -> str:
        """The configuration, with overlays and a patch if there are any, of these kernels.

        Raises:
            HistoryError: the tree cannot be read, or has not the stretch of an overlay.
        """
        commit, patch = parts_of(revision)
        fixes = self._overlays.get(commit, [])
        return with_patch(OVERLAY_MARK.join([testbed.kernel_config, *fixes]), patch)

    def evidence(self, ledger: Ledger, asked: Asked) -> Evidence:
        """All facts that bear on a question.

        Raises:
            HistoryError: as `config_of`.
        """
        testbed = self.lab.testbed(asked.question.testbed)
        patched = (one for one in scope_of(asked).revisions if parts_of(one)[1])
        variants = {name: self.config_of(testbed, name) for name in (*self._overlays, *patched)}
        config, arch = testbed.kernel_config, testbed.arch
        return ledger.evidence(asked, config=config, arch=arch, variants=variants)

    @cached_property
    def _overlays(self) -> dict[str, list[str]]:
        """By revision: the overlays of its stretches, in the order of the lab file."""
        found: dict[str, list[str]] = {}
        for overlay in self.lab.source.overlays:
            try:
                stretch = self._history.stretch(overlay.first, overlay.last)
            except HistoryError:  # it may have landed since
                self._history.update()
                stretch = self._history.stretch(overlay.first, overlay.last)
            for revision in stretch:
                found.setdefault(revision, []).append(overlay.name)
        return found


def as_ordered(ledger: Ledger, fact: Fact, decision: int | None) -> Fact:
    """A fact under the name of what was measured: workers know commits, and patches apart.

    A kernel says itself which patch it has; of what was booted, or came to nothing, the decision
    says it.
    """
    if isinstance(fact, Kernel):
        return replace(fact, revision=with_patch(fact.revision, patch_of(fact.config)))
    if isinstance(fact, Boot | Dud) and decision is not None:
        ordered = ledger.decision(decision).revision
        commit, patch = parts_of(ordered)
        if patch and fact.revision == commit:
            return replace(fact, revision=ordered)
    return fact
