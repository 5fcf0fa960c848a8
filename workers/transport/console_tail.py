"""The end of a console's output, as message and log of a fault."""

from __future__ import annotations

from netbisect.bisect.model.faults import Fault
from netbisect.workers.transport.errors import LabFault
from netbisect.workers.transport.panic import Panic, find_panic, prompt_in

_TAIL = 2000
"""Characters of the console in a log, besides a panic."""


def boot_fault(fault: Fault, why: str, output: str) -> LabFault:
    """The fault, or a panic at boot if the console shows one."""
    panic = find_panic(output)
    if panic is not None:
        return LabFault.of(Fault.PANIC_AT_BOOT, panic.message, console_excerpt(panic, output))
    return LabFault.of(fault, why, console_excerpt(None, output))


def prompt_suffix(output: str) -> str:
    """Suffix of a message that names the prompt on the console, or ""."""
    prompt = prompt_in(output)
    return f"; it stands at {prompt}" if prompt else ""


def console_excerpt(panic: Panic | None, output: str) -> str:
    """The panic with its backtrace, and the end of the console."""
    tail = output[-_TAIL:].strip()
    if panic is None or panic.text.endswith(tail):
        return panic.text if panic is not None else tail
    return f"{panic.text}\n...\n{tail}"
