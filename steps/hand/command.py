"""Runs the user's commands, and finds the number in what they print."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from netbisect.reports.words import clean

SKIP = 125
"""Exit status of a command that cannot tell, as in `git bisect run`."""
_PATIENCE = 2.0
"""Seconds between the request to end and the end."""
_LOOK = 0.2
"""Seconds between looks at how much was printed."""
_MOST = 256 << 20
"""Bytes of output that are taken for no benchmark's."""
_TAIL = 4000
_SHOWN = 100
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?"
    r"|(?<![\w.])[-+]?(?:nan|inf(?:inity)?)(?!\w)",
    re.IGNORECASE,
)


class CommandError(Exception):
    """No number came of it; the text says why."""

    def __init__(self, why: str, *, again: bool, log: str = "", seconds: float = 0.0) -> None:
        """A reason.

        Args:
            why: As the end of a sentence.
            again: Whether another try might help.
            log: The end of what was printed, for people.
            seconds: What it took.
        """
        super().__init__(why)
        self.again = again
        self.log = log
        self.seconds = seconds


class OverBudgetError(Exception):
    """A command was ended because the time of the whole search is over."""


class StoppedError(Exception):
    """A command was ended because the search is over, or somebody wants it to end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that came to its end."""

    status: int
    output: str
    errors: str
    seconds: float

    @property
    def log(self) -> str:
        """The end of all it printed, for people."""
        return (self.output + self.errors)[-_TAIL:]

    @property
    def why(self) -> str:
        """How it ended, for a command that failed."""
        if self.status < 0:
            how = f"was ended by {signal.Signals(-self.status).name}"
        else:
            how = f"ended with exit status {self.status}"
        said = _last_line(self.errors) or _last_line(self.output)
        return f"{how}: {said}" if said else how


def _last_line(text: str) -> str:
    lines = [line for line in map(clean, text.splitlines()) if line]
    return lines[-1][:_SHOWN] if lines else ""


def run(
    command: Sequence[str],
    folder: Path,
    told: Mapping[str, str],
    seconds: float | None,
    stop: threading.Event,
) -> Ended:
    """Runs a command to its end, in a group of processes of its own.

    Args:
        command: A program and its arguments.
        folder: Where it runs.
        told: What the command finds in its environment, beside what is there.
        seconds: What it may take; None is without end.
        stop: Set when it is to end at once.

    Raises:
        CommandError: It cannot be started, or prints without end.
        StoppedError: It was to end.
        subprocess.TimeoutExpired: It took too long, and was ended with all it had started.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE")}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment | dict(told),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise CommandError(_not_started(command[0], error), again=False) from error
        try:
            status = _wait(process, seconds, (output, errors), stop)
        except BaseException:
            _end(process)
            raise
        took = time.monotonic() - began
        texts = []
        for stream in (output, errors):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return Ended(status, texts[0], texts[1], took)


def _wait(
    process: subprocess.Popen[bytes],
    seconds: float | None,
    streams: Sequence[IO[bytes]],
    stop: threading.Event,
) -> int:
    """Waits for the exit status, and that what is printed does not fill the disk."""
    deadline = time.monotonic() + (math.inf if seconds is None else seconds)
    while True:
        left = deadline - time.monotonic()
        try:
            return process.wait(min(left, _LOOK))
        except subprocess.TimeoutExpired:
            if left <= _LOOK:
                raise
        if stop.is_set():
            raise StoppedError
        if any(os.fstat(stream.fileno()).st_size > _MOST for stream in streams):
            raise CommandError(f"the command printed more than {_MOST >> 20} MB", again=False)


def _not_started(program: str, error: OSError | ValueError) -> str:
    why = error.strerror if isinstance(error, OSError) else str(error)
    text = f"the command cannot be run: {program}: {why}"
    if "/" in program and not program.startswith("/"):
        text += (
            "; it is looked for in a checkout of its own, where only what was committed is: "
            "an absolute path finds it anywhere"
        )
    return text


def _end(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(_PATIENCE)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def number_of(ended: Ended, metric: str) -> float:
    """The number that a command printed; as `number_in` where it printed at all.

    Raises:
        CommandError: There is none, or not one above 0.
    """
    try:
        return number_in(ended.output, metric)
    except CommandError as error:
        why, elsewhere = str(error), _last_line(ended.errors)
        if elsewhere and not ended.output.strip():
            why += f" on its standard output, only on standard error: {elsewhere!r}"
        raise CommandError(why, again=error.again, log=ended.log, seconds=ended.seconds) from error


def number_in(text: str, metric: str) -> float:
    """The number that a command printed.

    Args:
        text: Its standard output.
        metric: A regular expression whose last match counts, or the first group of it; when
            empty, the last number of the text counts.

    Raises:
        CommandError: There is none, or not one above 0.
    """
    if not text.strip():
        raise CommandError("the command printed nothing", again=True)
    matches = list(re.finditer(metric, text, re.MULTILINE) if metric else _NUMBER.finditer(text))
    if not matches:
        wanted = f"nothing that --metric {metric} matches" if metric else "no number"
        raise CommandError(
            f"the command printed {wanted}; its last line was {_last_line(text)!r}", again=True
        )
    last = matches[-1]
    found = (last[1] if last.re.groups else last[0]) or ""
    try:
        value = float(found.replace(",", ""))
    except ValueError:
        raise CommandError(
            f"the command printed {clean(found)[:_SHOWN]!r} where --metric looks, no number",
            again=True,
        ) from None
    if not (value > 0 and math.isfinite(value)):
        raise CommandError(
            f"the command printed {clean(found)}, a finite number above 0 expected", again=True
        )
    return value
