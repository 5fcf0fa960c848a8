"""Records of watchdog timeouts, in `stalls.json` of the state folder."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from netbisect.reports.render import words

MASTER, COMPUTE, WORKER = "master", "compute", "worker"
"""The process or connection that was ended."""
_ENDS = {
    MASTER: "the master ended and its supervisor restarts it",
    COMPUTE: "the compute process was restarted",
    WORKER: "the connection was closed and the work queued again",
}
_NAME = "stalls.json"
_KEPT = 50
"""Records in the file; earlier ones are only counted."""
_SHOWN = 5
_DAYS = 7.0
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Stall:
    """An operation that exceeded its time limit."""

    at: float
    """End, seconds since the epoch."""
    what: str
    """The operation, a noun."""
    seconds: float
    """Duration."""
    ended: str = MASTER
    """One of MASTER, COMPUTE and WORKER."""
    host: str = field(default_factory=socket.gethostname)
    """Host of the master."""

    @property
    def sentence(self) -> str:
        """A message with time, host, operation and consequence."""
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.at))
        waited = f"waited {words.duration(self.seconds)} for" if self.seconds else "waited for"
        return f"{when} on {self.host}: {waited} {self.what}; {_ENDS[self.ended]}."


@dataclass(frozen=True, slots=True)
class StallHistory:
    """Content of the file."""

    counts: Mapping[str, int]
    """Number of all stalls, by `ended`."""
    latest: Sequence[Stall] = ()
    """Oldest first."""

    @property
    def recent(self) -> list[str]:
        """Messages of the last week, newest first."""
        week = [one for one in self.latest if one.at > time.time() - _DAYS * _DAY]
        messages = [one.sentence for one in week[: -_SHOWN - 1 : -1]]
        if len(week) > _SHOWN:
            messages.append(f"{words.count(len(week) - _SHOWN, 'earlier stall')} in a week.")
        return messages


def read(state: Path) -> StallHistory:
    """Reads the file; a missing or damaged one counts as empty."""
    try:
        data = json.loads((state / _NAME).read_text())
        latest = tuple(Stall(**one) for one in data["latest"])
        counts = {name: int(data["counts"].get(name, 0)) for name in _ENDS}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return StallHistory(dict.fromkeys(_ENDS, 0))
    return StallHistory(counts, latest)


def add(state: Path, stall: Stall) -> None:
    """Appends a record, replacing the file atomically. Raises OSError."""
    before = read(state)
    counts = {**before.counts, stall.ended: before.counts[stall.ended] + 1}
    latest = [asdict(one) for one in [*before.latest, stall][-_KEPT:]]
    with tempfile.TemporaryDirectory(prefix=f".{_NAME}-", dir=state) as folder:
        work = Path(folder, _NAME)
        work.write_text(json.dumps({"counts": counts, "latest": latest}, indent=1) + "\n")
        work.replace(state / _NAME)
