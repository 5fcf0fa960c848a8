"""Runs the user's commands and parses their output."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import click

from netbisect.bisect.model.metric import LEAST_VALUE, MOST_VALUE
from netbisect.localbisect.repository import LOCATION
from netbisect.reports.render.words import clean
from netbisect.workers.transport.lifetime import signal_group

SKIP = 125
"""Exit status that skips a revision, as in `git bisect run`."""
_TERM_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_POLL_SECONDS = 0.2
"""Interval of checks of the output size."""
_MAX_OUTPUT_BYTES = 256 << 20
_LOG_CHARACTERS = 4000
_MESSAGE_CHARACTERS = 200
_LINE_CHARACTERS = 100_000
"""Characters searched for numbers, from the end of a line; a line may have the whole output."""
_UNIT = (
    r" ?(?:(?P<prefix>[kKMGT])(?P<binary>i(?=[bB]|\b))?"
    r"(?i:b|bits?|bytes?|bps|p|pps|pkts?|packets|hz|ops?|iops|flops|[rqt]ps|req(?:uest)?s?)?"
    r"|(?P<fraction>milli(?=s)|micro(?=s)|nano(?=s)|[mun\u00b5\u03bc])s(?:ec(?:ond)?s?)?)(?![\w-])"
)
"""A unit with a prefix, which may differ between the lines of a program."""
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "m": -1, "u": -2, "n": -3}
_POWERS |= {"milli": -1, "micro": -2, "nano": -3} | dict.fromkeys("\u00b5\u03bc", -2)
_TIME_UNITS = ("d(?:ays?)?", "h(?:(?:ou)?rs?)?", "m(?:in(?:ute)?s?)?", "s(?:ec(?:ond)?s?)?", "ms")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_TIMES = [
    "".join(rf"(?:\d+ ?{unit} ?)?" for unit in _TIME_UNITS[:i])
    + rf"\d+(?:[.,]\d+)? ?{_TIME_UNITS[i]}(?![\w-])"
    for i in reversed(range(len(_TIME_UNITS)))
]
_TIMES += [r"(?:\d+:)?\d+:[0-5]\d(?:[.,]\d+)?(?![\w:])"]
_TIME = rf"(?<![\w.])(?<!\d[:,])(?:{'|'.join(_TIMES)})"
"""A time such as `1h2m`, `1 min 2.5 sec` or `1:02.50`; only its last part may have a fraction."""
_ERROR = re.compile(r"error(?:\[\w+\]| \w+)?: ", re.IGNORECASE)
"""In the messages of compilers and Python."""
_SCALED = re.compile(_UNIT)
_NUMBER = re.compile(
    rf"{_TIME}"
    r"|(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d*)?|(?<!,)\d+,\d+(?![\d.,])"
    rf"|\d+(?:_\d{{3}})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?:{_UNIT})?"
    r"|(?<![\w.])[-+]?(?i:nan|inf(?:inity)?)(?!\w)"
)
_GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?(e[-+]?\d+)?(?![\d.,])", re.IGNORECASE)
"""A number with its digits in groups of three."""
_TIME_AT = re.compile(rf"\s*({_TIME})")
_PART = re.compile(r"([\d.]+) ?([a-z]+)")


class MeasurementError(Exception):
    """The command produced no number."""

    def __init__(
        self, why: str, *, again: bool = False, log: str = "", seconds: float = 0.0
    ) -> None:
        """Takes the reason as the end of a sentence, whether to retry, and the end of output."""
        super().__init__(why)
        self.again = again
        self.log = log
        self.seconds = seconds


class BudgetError(Exception):
    """The budget of the search is spent."""


class SearchStoppedError(Exception):
    """The search has ended or was interrupted."""


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """A completed command."""

    status: int
    output: str
    errors: str
    seconds: float

    @property
    def log(self) -> str:
        """The end of its output."""
        return (self.output + self.errors)[-_LOG_CHARACTERS:]

    @property
    def why(self) -> str:
        """Description of a failure."""
        if self.status < 0:
            names = {one.value: one.name for one in signal.Signals}  # without real-time signals
            how = f"was ended by {names.get(-self.status, f'signal {-self.status}')}"
        else:
            how = f"ended with exit status {self.status}"
        output = self.errors if self.errors.strip() else self.output
        # Below the error, make only says that a job has failed.
        error = next(filter(_ERROR.search, output.splitlines()), "")
        last = _last_line(error) or _last_line(output)
        return f"{how}: {last}" if last else how


def _last_line(text: str) -> str:
    lines = filter(None, map(clean, reversed(text.splitlines())))
    return next(lines, "")[:_MESSAGE_CHARACTERS]


def run(
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    seconds: float,
    stop: threading.Event,
    *,
    end_children: bool,
) -> CompletedCommand:
    """Runs a command in a process group of its own.

    `variables` are added to its environment, `seconds` is its timeout, and `stop` aborts it. With
    `end_children` the processes that it leaves in its group are killed.

    Raises:
        MeasurementError: It cannot be started, prints too much, or the temporary folder is full.
        SearchStoppedError: It was aborted.
        subprocess.TimeoutExpired: It exceeded the timeout and was killed.
    """
    environment = {k: v for k, v in os.environ.items() if k not in LOCATION}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment | dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise MeasurementError(_start_error(command[0], error)) from error
        try:
            status = _wait(process, seconds, (output, errors), stop)
        except BaseException:
            _terminate(process)
            raise
        took = time.monotonic() - began
        if end_children:
            signal_group(process, signal.SIGKILL)
        try:
            return CompletedCommand(status, _text(output), _text(errors), took)
        except OSError as error:
            where = f"its output cannot be written to {tempfile.gettempdir()}"
            raise MeasurementError(f"{where}: {error.strerror}") from error


def _text(stream: IO[bytes]) -> str:
    """The output in a file; fails on a full disk, on which it may be incomplete."""
    size = stream.seek(0, os.SEEK_END)
    os.pwrite(stream.fileno(), b"\n", size)
    stream.seek(0)
    return click.unstyle(stream.read(size).decode(errors="replace").replace("\r\n", "\n"))


def _wait(
    process: subprocess.Popen[bytes],
    seconds: float,
    streams: Sequence[IO[bytes]],
    stop: threading.Event,
) -> int:
    """Waits for the exit status; limits the output."""
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            return process.wait(min(left, _POLL_SECONDS))
        except subprocess.TimeoutExpired:
            if left <= _POLL_SECONDS:
                raise
        if stop.is_set():
            raise SearchStoppedError
        if any(os.fstat(stream.fileno()).st_size > _MAX_OUTPUT_BYTES for stream in streams):
            raise MeasurementError(f"the command printed more than {_MAX_OUTPUT_BYTES >> 20} MB")


def _start_error(program: str, error: OSError | ValueError) -> str:
    why = error.strerror if isinstance(error, OSError) else str(error)
    text = f"the command cannot be run: {program}: {why}"
    if any(map(str.isspace, program)):
        text += (
            f"; it runs without a shell: expected separate words, or sh -c {shlex.quote(program)}"
        )
    elif "/" in program and not program.startswith("/") and isinstance(error, FileNotFoundError):
        text += (
            "; relative paths are searched in a fresh checkout, which contains only committed "
            "files; use an absolute path"
        )
    return text


def _terminate(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        signal_group(process, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TERM_SECONDS)


def measured_value(ended: CompletedCommand, metric: str) -> float:
    """The number that a command printed. Raises MeasurementError if there is none above 0."""
    try:
        return parse_value(ended.output, metric)
    except ValueError as error:
        why, elsewhere = f"the command printed {error}", _last_line(ended.errors)
        if elsewhere and not ended.output.strip():
            why += f" on its standard output, only on standard error: {elsewhere!r}"
        raise MeasurementError(why, again=True, log=ended.log, seconds=ended.seconds) from error


def parse_value(text: str, metric: str) -> float:
    """Parses the number that a command printed.

    Args:
        text: Standard output.
        metric: Regular expression; its last match, or the first group of it, is the number. If
            empty, the last number of the text is used. The prefix of a unit behind it counts, and
            all parts of a time, as in `1h2m3s`.

    Raises:
        ValueError: There is no number within the limits; the message says what there is instead.
    """
    if not text.strip():
        raise ValueError("nothing")
    found_in = re.finditer(metric, text, re.MULTILINE) if metric else _last_numbers(text, 1)
    matches = deque(found_in, maxlen=1)  # a match takes a hundred times the memory of its text
    if not matches:
        wanted = f"nothing that --metric {metric} matches" if metric else "no number"
        raise ValueError(f"{wanted}; its last line was {_last_line(text)!r}")
    last = matches[-1]
    begin, end = last.span(1 if metric and last.re.groups else 0)
    time_ = _TIME_AT.match(text, begin)
    unit = None if time_ else _SCALED.search(text, begin, end) or _SCALED.match(text, end)
    plain = time_[1] if time_ else text[begin : min(unit.start(), end) if unit else end]
    found = clean(plain)[:_MESSAGE_CHARACTERS]
    if "," in found and not _GROUPED.match(found):
        raise ValueError(f"{found}, expected a decimal point, or --metric for one of two numbers")
    try:
        digits = found.replace(",", "")
        value = _seconds(digits) if time_ else float(digits) * _factor(unit)
    except ValueError:
        raise ValueError(f"{found!r} at --metric, not a number") from None
    if not LEAST_VALUE <= value <= MOST_VALUE:
        raise ValueError(f"{found}, expected a number from {LEAST_VALUE:g} to {MOST_VALUE:g}")
    return value


def _seconds(found: str) -> float:
    """The seconds of a time."""
    if ":" in found:
        return sum(float(part) * 60**i for i, part in enumerate(reversed(found.split(":"))))
    parts = _PART.findall(found)
    return sum(float(part) * (_SECONDS.get(unit) or _SECONDS[unit[0]]) for part, unit in parts)


def _factor(unit: re.Match[str] | None) -> float:
    """The factor of the prefix of a unit."""
    if unit is None:
        return 1.0
    power = _POWERS[unit["prefix"] or unit["fraction"]]
    return 2.0 ** (10 * power) if unit["binary"] else 10.0 ** (3 * power)


def last_of_several(text: str) -> str:
    """The line up to its number, if `text` has more numbers than this last one; else ""."""
    numbers = _last_numbers(text, 2)
    if len(numbers) == 1:
        return ""
    end = numbers[-1].end()
    before = text[max(0, end - _LINE_CHARACTERS) : end]
    return clean(before.rpartition("\n")[2])[-_MESSAGE_CHARACTERS:]


def _last_numbers(text: str, most: int) -> Sequence[re.Match[str]]:
    """The last numbers of `text`; reads no more lines than it must."""
    found: deque[re.Match[str]] = deque(maxlen=most)
    end = len(text)
    while end >= 0 and len(found) < most:
        begin = text.rfind("\n", 0, end) + 1
        searched = _NUMBER.finditer(text, max(begin, end - _LINE_CHARACTERS), end)
        of_line = deque(searched, maxlen=most - len(found))
        found.extendleft(reversed(of_line))
        end = begin - 1
    return found
