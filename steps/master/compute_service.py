"""Starts and ends the compute process with the master, and records when it does not answer."""

from __future__ import annotations

import time
from typing import Any

from buildbot.util.service import BuildbotService
from twisted.internet import defer

from netbisect.steps.service import compute, stalls
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.stalls import Stall
from netbisect.steps.service.watchdog import record_stall


class ComputeService(BuildbotService):
    """Moves calculations to a process of their own while the master runs."""

    compare_attrs = ("settings",)
    name = "netbisect-compute"

    def checkConfig(self, settings: Settings, **_: Any) -> None:
        self._isolate(settings)

    def reconfigService(self, settings: Settings, **kwargs: Any) -> defer.Deferred[None]:
        self._isolate(settings)
        return super().reconfigService(**kwargs)

    def stopService(self) -> defer.Deferred[None]:
        """Abandons running calculations: they are repeated from the same facts."""
        self._process.close()
        return super().stopService()

    def _isolate(self, settings: Settings) -> None:
        # Half, so that callers get an error before the watchdog ends the master.
        self._process = process = compute.use_compute_process(
            settings.stall_seconds / 2, settings.state / "matplotlib"
        )

        def on_timeout(what: str) -> None:
            stall = Stall(
                time.time(), f"{what} in the compute process", process.limit, stalls.COMPUTE
            )
            record_stall(settings.state, stall)
            # If a new process does not answer either, the watchdog ends the master.
            process.call("os", "getpid")

        process.on_timeout = on_timeout
