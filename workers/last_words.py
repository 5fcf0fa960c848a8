"""What a machine said last on its console, as the reason of a fault and as its log."""

from __future__ import annotations

from netbisect.bisect.faults import Fault
from netbisect.workers.faults import LabFault
from netbisect.workers.panic import Panic, find_panic, prompt_in

_TAIL = 2000
"""Characters of a console's end that go into a Dud, besides a panic."""


def boot_fault(fault: Fault, why: str, said: str) -> LabFault:
    """That fault; where the console has a panic, that the kernel panicked while it booted."""
    panic = find_panic(said)
    if panic is not None:
        return LabFault.of(Fault.PANIC_AT_BOOT, panic.message, last_words(panic, said))
    return LabFault.of(fault, why, last_words(None, said))


def standing(said: str) -> str:
    """The tail of a sentence: at which prompt the machine waits for somebody, if it does."""
    prompt = prompt_in(said)
    return f"; it stands at {prompt}" if prompt else ""


def last_words(panic: Panic | None, said: str) -> str:
    """The panic with its backtrace, and what the console said last."""
    tail = said[-_TAIL:].strip()
    if panic is None or panic.text.endswith(tail):
        return panic.text if panic is not None else tail
    return f"{panic.text}\n...\n{tail}"
