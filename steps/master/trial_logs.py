"""Logs of trials: console, output of pkt-gen and more, on the master while there is room.

    state/visits/DECISION/console.log ...

The logs of failed trials and of open alerts are kept longest.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection
from pathlib import Path
from string import digits

from buildbot.plugins import steps
from buildbot.process.remotecommand import RemoteException
from buildbot.process.results import SKIPPED, SUCCESS, WARNINGS

from netbisect.steps.master.lab_step import DECISION_PROPERTY
from netbisect.steps.master.transfer import INCOMING, incoming_folder, reason
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.watchdog import run_in_thread
from netbisect.store.db.database import StoreError
from netbisect.store.ledger import Ledger

LOGS = "logs"
"""Folder with logs on the worker, in the folder of the build."""
_DISK = "the logs of a trial"
_LARGEST = 256 << 20
"""Most bytes per trial."""


def folder_of(settings: Settings, decision: int) -> Path:
    """Folder on the master for the logs of a decision."""
    return settings.trial_logs / str(decision)


class KeepTrialLogs(steps.DirectoryUpload):
    """Uploads the logs of a trial, successful or not; never fails the build."""

    def __init__(self, *, settings: Settings) -> None:
        self.settings = settings
        super().__init__(
            name="keep logs",
            workersrc=LOGS,
            masterdest=incoming_folder(settings.trial_logs),
            compress="gz",
            maxsize=_LARGEST,
            alwaysRun=True,
            haltOnFailure=False,
            flunkOnFailure=False,
        )

    async def run(self) -> int:
        """Uploads and stores the logs, and removes old ones if room is short."""
        incoming = Path(str(self.masterdest))
        try:
            uploaded = await super().run()
        except (RemoteException, OSError) as error:  # such as a full disk of either host
            self.descriptionDone = [f"the logs cannot be kept: {reason(error)}"]
            await run_in_thread(_DISK, shutil.rmtree, incoming, ignore_errors=True)
            return int(WARNINGS)
        decision = self.getProperty(DECISION_PROPERTY)
        if decision is None or not await run_in_thread(_DISK, incoming.is_dir):
            await run_in_thread(_DISK, shutil.rmtree, incoming, ignore_errors=True)
            return int(SKIPPED if uploaded == SUCCESS else uploaded)
        place = folder_of(self.settings, decision)
        fault = await run_in_thread(_DISK, keep, incoming, place)
        if fault:
            self.descriptionDone = [fault]
            return int(WARNINGS)
        try:
            retained = await database_thread(self.settings).do(retained_decisions)
            await run_in_thread(_DISK, evict, self.settings, retained, decision)
        except (StoreError, OSError) as error:  # such as a long outage of the database
            self.descriptionDone = [f"old logs could not be removed: {error}"]
            return int(WARNINGS)
        return int(uploaded)


def keep(incoming: Path, place: Path) -> str:
    """Moves `incoming` to `place`, replacing it; returns an error message or ""."""
    try:
        for stale in place.parent.glob(f"{INCOMING}*"):
            # Left by a killed master: this builder runs one trial at a time.
            if stale != incoming and stale.name.rstrip(digits) == incoming.name.rstrip(digits):
                shutil.rmtree(stale, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        incoming.rename(place)
    except OSError as error:
        shutil.rmtree(incoming, ignore_errors=True)
        return f"the logs cannot be stored: {error}"
    return ""


def retained_decisions(ledger: Ledger) -> set[int]:
    """Decisions whose logs are removed last: of open alerts, and failed ones."""
    found = ledger.actions.failed()
    for alert in ledger.alerts.all_open():
        for number in (alert.comparison, alert.bisection):
            job = number
            while job is not None:  # a comparison may follow from another one
                found |= {decision.id for decision in ledger.actions.of_job(job)}
                job = ledger.jobs.get(job).parent
        if alert.bisection is not None:  # profiles of the commit
            for record in ledger.jobs.children(alert.bisection):
                found |= {decision.id for decision in ledger.actions.of_job(record.id)}
    return found


def _sizes(settings: Settings) -> dict[int, int]:
    """Bytes of the logs by decision, oldest first."""
    folders = settings.trial_logs.iterdir() if settings.trial_logs.is_dir() else ()
    found = {}
    for decision in sorted(int(path.name) for path in folders if path.name.isdecimal()):
        with contextlib.suppress(FileNotFoundError):  # removed after another trial
            files = folder_of(settings, decision).rglob("*")
            found[decision] = sum(file.stat().st_size for file in files if file.is_file())
    return found


def evict(settings: Settings, retained: Collection[int], newest: int) -> list[int]:
    """Removes logs until the rest fits, oldest first, and those of `retained` decisions last.

    Those of the `newest` decision stay. Returns the decisions whose logs were removed.
    """
    sizes = _sizes(settings)
    left = sum(sizes.values())
    gone = []
    for decision in sorted(sizes, key=lambda one: one in retained):
        if left <= settings.trial_log_bytes:
            break
        if decision != newest:
            shutil.rmtree(folder_of(settings, decision), ignore_errors=True)
            left -= sizes[decision]
            gone.append(decision)
    return gone
