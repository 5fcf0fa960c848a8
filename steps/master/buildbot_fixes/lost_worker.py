"""A request whose worker is lost while it is claimed is given to another worker.

In Buildbot it stays claimed for ever; not fixed upstream. `builders.LabBuild` handles a worker
that is lost later.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from buildbot.process.builder import Builder
from buildbot.process.workerforbuilder import AbstractWorkerForBuilder
from twisted.internet import defer

from netbisect.steps.master.buildbot_fixes.fix import Fix

FIX = Fix(Builder, "maybeStartBuild", "8171932f240a")


@defer.inlineCallbacks
def maybe_start_build(
    self: Builder, workerforbuilder: AbstractWorkerForBuilder, requests: list[Any]
) -> Generator[defer.Deferred[Any], Any, bool]:
    """Starts a build; False if its worker was lost since it was chosen."""
    try:
        return bool((yield FIX.original(self, workerforbuilder, requests)))
    except AttributeError:  # of None instead of the worker
        if workerforbuilder.worker is not None:
            raise
        return False
