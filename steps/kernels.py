"""Which kernels a testbed runs: of its configuration, with the fixes of the lab file."""

from __future__ import annotations

from functools import cached_property

from netbisect.bisect.model import Evidence
from netbisect.store.history import History, HistoryError
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked
from netbisect.workers.lab import OVERLAY_MARK, Lab, Testbed


class Kernels:
    """The stretches of the tree that are known to be broken, and what mends them.

    A kernel with a fix is of a configuration of its own, such as `GENERIC+fix-igb`: it is never
    taken for one without, nor is what failed without it held against it. Its methods may read the
    tree, so they are for the ledger's thread.
    """

    def __init__(self, lab: Lab, history: History) -> None:
        self.lab = lab
        self._history = history

    def config_of(self, testbed: Testbed, revision: str) -> str:
        """The configuration, with overlays if there are any, of this revision's kernels.

        Raises:
            HistoryError: the tree cannot be read, or has not the stretch of an overlay.
        """
        return OVERLAY_MARK.join([testbed.kernel_config, *self._overlays.get(revision, ())])

    def evidence(self, ledger: Ledger, asked: Asked) -> Evidence:
        """All facts that bear on a question.

        Raises:
            HistoryError: as `config_of`.
        """
        testbed = self.lab.testbed(asked.question.testbed)
        variants = {name: self.config_of(testbed, name) for name in self._overlays}
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
