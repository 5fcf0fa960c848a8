"""Finds the panic in the console output of a machine, and describes it in a fault.

The forms are those of FreeBSD's kernels: `panic: ...` with the lines of kdb_backtrace() in their
old and new form, `Fatal trap ...` with the block of registers before it, and the output of ddb(4).
A console adds colours of the loader's menu, noise of the line while the power changes, and lines
that were cut or begun by other output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.bisect.model.faults import Fault
from netbisect.workers.transport.errors import LabFault

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_]|.)?")
# The complement, [^\n\t\x20-\x7e\xa0-\ufffc], takes ten times as long to compile.
_NOISE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd-\U0010ffff]")

_TRAP = re.compile(r"Fatal (?:trap \d+: .*|double fault.*)")
_PANIC = re.compile(r"(?<!after )panic: *(.*)")
_PRIORITY = re.compile(r"(?:<\d+>)?")
"""Optional syslog priority before a kernel message."""
_FOLLOWS = re.compile(r"cpuid = |time = |KDB: ")
_FOLLOWS_WITHIN = 3
_FRAME = re.compile(
    r"\s*#\d+ 0x[0-9a-f]+ at (?P<new>[\w.$]+)|(?P<old>[\w.$]+)\(.*\) at [\w.$]+\+0x"
)
_END = re.compile(
    r"Uptime: |Dumping |Cannot dump|Automatic reboot|Rebooting|---<<BOOT>>---|Booting |"
    r"Copyright \(c\)|Consoles: |Loading kernel"
)
_MACHINERY = {
    *("calltrap", "trap", "trap_fatal", "trap_pfault", "trap_check", "nmi_calltrap"),
    *("panic", "vpanic", "kassert_panic", "kdb_backtrace", "kdb_enter", "kdb_trap"),
    *("db_trace_self", "db_trace_self_wrapper", "db_trap", "db_command", "db_command_loop"),
    *("data_abort", "do_el1h_sync", "handle_el1h", "handle_el1h_sync"),
}
"""Functions that report a fault; the next function on the stack caused it."""
_LINES = 200
"""Maximal lines of a panic."""
_TEXT = 6000
"""Maximal characters of a panic; the top of the stack matters most."""
_MESSAGE = 300
_TAIL = 2000
"""Characters of the console in a log, besides a panic."""

_PROMPTS = (
    (re.compile(r"mountroot>"), "mountroot>: it finds no root file system"),
    (re.compile(r"db(?::\d+:[\w.]+)?>"), "db>: it is in the kernel's debugger"),
    (re.compile(r"OK\Z"), "OK: the loader could not go on"),
    (re.compile(r"Enter full pathname of shell"), "single user mode: its start did not succeed"),
)


@dataclass(frozen=True, slots=True)
class Panic:
    """A kernel panic."""

    message: str
    """One line; for a trap with the function, if known."""
    text: str
    """Registers, backtrace and debugger output."""


def plain(heard: bytes) -> str:
    """Console output as text without control sequences, noise and carriage returns."""
    text = _ESCAPE.sub("", heard.decode(errors="replace"))
    return _NOISE.sub("", re.sub(r"\r+\n?", "\n", text))


def find_panic(output: str) -> Panic | None:
    """The first panic in the output, or None.

    Later ones mostly follow from it. A message about an earlier panic at boot does not count.
    """
    lines = output.split("\n")
    for number, line in enumerate(lines):
        if "panic: " not in line and "Fatal " not in line:
            continue
        message = _begins(line, lines[number + 1 : number + 1 + _FOLLOWS_WITHIN])
        if message:
            return _panic(message, lines[number : number + _LINES])
    return None


def prompt_in(output: str) -> str:
    """The prompt in the last line of the console, or ""."""
    last = next((line.strip() for line in reversed(output.split("\n")) if line.strip()), "")
    return next((words for form, words in _PROMPTS if form.match(last)), "")


def _begins(line: str, following: Sequence[str]) -> str:
    """The message if a panic begins in this line, or "".

    If other text precedes it, the next lines must confirm the panic.
    """
    trap = _TRAP.search(line)
    if trap:
        return trap[0].strip()
    panic = _PANIC.search(line)
    if panic is None:
        return ""
    alone = _PRIORITY.fullmatch(line, 0, panic.start())
    if alone or any(_FOLLOWS.match(one) for one in following):
        return panic[0].strip()
    return ""


def _panic(message: str, lines: Sequence[str]) -> Panic:
    end = next((n for n, line in enumerate(lines) if n and _END.match(line)), len(lines))
    body = [line.rstrip() for line in lines[:end]]
    frames = [found["new"] or found["old"] for line in body if (found := _FRAME.match(line))]
    culprit = next((name for name in frames if name not in _MACHINERY), "")
    if message.startswith("Fatal") and culprit:
        message = f"{message} in {culprit}()"
    text = "\n".join(body).strip()
    if len(text) > _TEXT:
        text = f"{text[:_TEXT]}\n(cut here)"
    return Panic(message[:_MESSAGE], text)


def boot_fault(fault: Fault, why: str, output: str) -> LabFault:
    """The fault, or a panic at boot if the console shows one."""
    panic = find_panic(output)
    if panic is not None:
        return LabFault(Fault.PANIC_AT_BOOT, panic.message, console_excerpt(panic, output))
    return LabFault(fault, why, console_excerpt(None, output))


def prompt_suffix(output: str) -> str:
    """Suffix of a message that names the prompt on the console, or ""."""
    prompt = prompt_in(output)
    return f"; it stands at {prompt}" if prompt else ""


def silence_suffix(output: str) -> str:
    """Message suffix if the console has no output of a restart, or ""."""
    return "" if output.strip() else "; there is no output of its console"


def console_excerpt(panic: Panic | None, output: str) -> str:
    """The panic with its backtrace, and the end of the console."""
    tail = output[-_TAIL:].strip()
    if panic is None or panic.text.endswith(tail):
        return panic.text if panic is not None else tail
    return f"{panic.text}\n...\n{tail}"
