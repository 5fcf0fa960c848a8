"""What visits leave behind: console, output of pkt-gen and more, on the master for as long as fits.

    state/visits/DECISION/console.log ...

A visit that failed is what people want to look into, so its folder comes too, and stays longest.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from string import digits

from buildbot.plugins import steps, util
from buildbot.process.results import SKIPPED, SUCCESS, WARNINGS
from twisted.internet import threads

from netbisect.steps.lab_step import DECISION_PROPERTY
from netbisect.steps.memory import memory
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger

LOGS = "logs"
"""Folder of a visit on its worker, in the folder of the build."""
_INCOMING = ".incoming-"
_LARGEST = 256 << 20
"""Bytes of one visit; the console's log, which is limited itself, is most of it."""


def folder_of(settings: Settings, decision: int) -> Path:
    """Where what a visit left behind is kept on the master, if it is."""
    return settings.visits / str(decision)


class KeepVisit(steps.DirectoryUpload):
    """Brings the folder to the master, however the visit went, and makes room; fails nothing."""

    def __init__(self, *, settings: Settings) -> None:
        self.settings = settings
        super().__init__(
            name="keep logs",
            workersrc=LOGS,
            masterdest=util.Interpolate(
                f"{settings.visits}/{_INCOMING}%(prop:builder)s-%(prop:buildnumber)s"
            ),
            compress="gz",
            maxsize=_LARGEST,
            alwaysRun=True,
            haltOnFailure=False,
            flunkOnFailure=False,
        )

    async def run(self) -> int:
        """A visit without logs, or one of no decision, leaves nothing."""
        uploaded = await super().run()
        incoming = Path(str(self.masterdest))
        decision = self.getProperty(DECISION_PROPERTY)
        if decision is None or not await threads.deferToThread(incoming.is_dir):
            await threads.deferToThread(shutil.rmtree, incoming, ignore_errors=True)
            return int(SKIPPED if uploaded == SUCCESS else uploaded)
        place = folder_of(self.settings, decision)
        fault = await threads.deferToThread(keep, incoming, place)
        if fault:
            self.descriptionDone = [fault]
            return int(WARNINGS)
        if await threads.deferToThread(_room_is_short, self.settings):
            cherished = await memory(self.settings).do(cherished_decisions)
            await threads.deferToThread(evict, self.settings, cherished, decision)
        return int(uploaded)


def keep(incoming: Path, place: Path) -> str:
    """Moves `incoming` to `place`, instead of what an earlier try left; "" or what is wrong."""
    try:
        for stale in place.parent.glob(f"{_INCOMING}*"):
            # Of this builder, which makes one visit at a time: a master that was killed left it.
            if stale != incoming and stale.name.rstrip(digits) == incoming.name.rstrip(digits):
                shutil.rmtree(stale, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        incoming.rename(place)
        place.touch()  # tar has given it the time of the worker's folder
    except OSError as error:
        shutil.rmtree(incoming, ignore_errors=True)
        return f"the logs cannot be kept: {error}"
    return ""


def cherished_decisions(ledger: Ledger) -> set[int]:
    """Visits that people may still want to look into: of open alerts, and those that failed."""
    found = ledger.failed_decisions()
    for alert in ledger.open_alerts():
        for number in (alert.comparison, alert.bisection):
            question = number
            while question is not None:  # a comparison may follow from another one
                found |= {decision.id for decision in ledger.decisions(question)}
                question = ledger.question(question).parent
        if alert.bisection is not None:  # what follows from it is the profiles of the commit
            for asked in ledger.children(alert.bisection):
                found |= {decision.id for decision in ledger.decisions(asked.id)}
    return found


def _folders(settings: Settings) -> dict[Path, int]:
    """Bytes of each visit, the oldest visit first."""
    found = {}
    for path in settings.visits.iterdir() if settings.visits.is_dir() else ():
        if path.name.isdecimal():
            sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
            found[path] = sum(sizes)
    return dict(sorted(found.items(), key=lambda item: (item[0].stat().st_mtime, item[0].name)))


def _room_is_short(settings: Settings) -> bool:
    return sum(_folders(settings).values()) > settings.visit_bytes


def evict(settings: Settings, cherished: Collection[int], newest: int) -> list[int]:
    """Removes visits until the rest fits: the oldest first, cherished ones after all others.

    Args:
        settings: Where they are, and how much room they have.
        cherished: Decisions whose visits go last.
        newest: One that stays in any case.

    Returns:
        The decisions whose visits were removed.
    """
    folders = _folders(settings)
    left = sum(folders.values())
    gone = []
    for path in sorted(folders, key=lambda path: int(path.name) in cherished):
        number = int(path.name)
        if left <= settings.visit_bytes:
            break
        if number != newest:
            shutil.rmtree(path, ignore_errors=True)
            left -= folders[path]
            gone.append(number)
    return gone
