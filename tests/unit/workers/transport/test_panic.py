"""Detection of panics and prompts in console output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.workers.transport.panic import find_panic, plain, prompt_in

TRAP = """\
kernel trap 12 with interrupts disabled


Fatal trap 12: page fault while in kernel mode
cpuid = 3; apic id = 06
instruction pointer\t= 0x20:0xffffffff80d4a1c3
current process\t\t= 12 (swi1: netisr 0)
trap number\t\t= 12
panic: page fault
cpuid = 3
time = 1700000123
KDB: stack backtrace:
#0 0xffffffff80b9009d at kdb_backtrace+0x5d
#4 0xffffffff8100c8af at trap_pfault+0x4f
#5 0xffffffff80fe3b88 at calltrap+0x8
#6 0xffffffff80d4a1c3 at ip_tryforward+0x2c3
#7 0xffffffff80d4b6f0 at ip_input+0x3a0
Uptime: 2m11s
Automatic reboot in 5 seconds - press a key on the console to abort
"""
MUTEX = """\
ix0: link state changed to UP
panic: mutex pf_state not owned at /usr/src/sys/netpfil/pf/pf.c:1812
cpuid = 1
time = 1700000200
KDB: stack backtrace:
db_trace_self_wrapper() at db_trace_self_wrapper+0x2b/frame 0xfffffe0012a3c7b0
pf_unlink_state() at pf_unlink_state+0x1f5/frame 0xfffffe0012a3c990
--- trap 0, rip = 0, rsp = 0, rbp = 0 ---
KDB: enter: panic
[ thread pid 18 tid 100121 ]
Stopped at      kdb_enter+0x33: movq    $0,0x104d132(%rip)
db:0:kdb.enter.panic> bt
Tracing pid 18 tid 100121 td 0xfffff80003f7e740
kdb_enter() at kdb_enter+0x33/frame 0xfffffe0012a3c8e0
db>\x20
"""
REVERSAL = """\
lock order reversal:
 1st 0xfffff80003b7a5f0 ufs (ufs, lockmgr) @ /usr/src/sys/kern/vfs_mount.c:1092
 2nd 0xfffff80003b7ad50 devfs (devfs, lockmgr) @ /usr/src/sys/kern/vfs_subr.c:2930
stack backtrace:
#0 0xffffffff80bb1a2d at witness_debugger+0x6d
#1 0xffffffff80bb19a7 at witness_checkorder+0xd77
"""


def test_trap_names_its_function() -> None:
    panic = find_panic(f"login: \n{TRAP}\nFreeBSD/amd64\n")
    assert panic.message == "Fatal trap 12: page fault while in kernel mode in ip_tryforward()"
    assert panic.text.startswith("Fatal trap 12")
    for part in ("instruction pointer", "swi1: netisr 0", "#7 0xffffffff80d4b6f0 at ip_input"):
        assert part in panic.text
    assert "Uptime" not in panic.text


def test_panic_has_message_backtrace_and_debugger_output() -> None:
    panic = find_panic(MUTEX)
    assert panic.message == "panic: mutex pf_state not owned at /usr/src/sys/netpfil/pf/pf.c:1812"
    assert "pf_unlink_state+0x1f5" in panic.text
    assert "kdb.enter.panic> bt" in panic.text
    assert "ix0" not in panic.text
    assert prompt_in(MUTEX).startswith("db>")


@pytest.mark.parametrize(
    "output",
    [
        "",
        REVERSAL,
        "savecore 512 - - reboot after panic: page fault\ncpuid = 0\n",
        "<118>reboot after panic: mutex not owned\n",
        "kern.panic_reboot_wait_time: 5\n",
        "echo a line with panic: in the middle\n# ls\n",
    ],
)
def test_text_about_panics_is_not_a_panic(output: str) -> None:
    """Lock order reversals have backtraces; savecore quotes earlier panics."""
    assert find_panic(output) is None


def test_control_sequences_are_removed() -> None:
    output = (
        b"\x1b[2J\x1b[25;1H\x1b[33mWelcome to FreeBSD\x1b[m\r\n"
        b"|\x08/\x08-\x08\xff\xfe\x00\x80\x9b"
        + TRAP.replace("\n", "\r\n").encode()
        + b"\x1b]0;title\x07\x1b[0m"
    )
    text = plain(output)
    assert not set(text) - set("\n\t") - {chr(code) for code in range(32, 127)}
    panic = find_panic(text)
    assert panic.message.endswith("in ip_tryforward()")


def test_panic_in_a_large_log_has_a_short_text() -> None:
    """Ten megabytes precede the panic, and 5,000 frames follow it."""
    noise = b"ix0: Watchdog timeout -- resetting\r\n" * 290_000
    frames = b"#9 0xffffffff80d4a1c3 at m_copyback+0x2c3 and further text in the line\n" * 5000
    panic = find_panic(plain(noise + TRAP.partition("Uptime")[0].encode() + frames))
    assert len(panic.text) < 7000
    assert "ip_tryforward" in panic.text


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_other_output_neither_hides_nor_imitates_a_panic(before: bytes, after: bytes) -> None:
    noise = before.replace(b"anic", b"").replace(b"Fatal", b"")
    assert find_panic(plain(noise)) is None
    found = find_panic(plain(noise + b"\x1b[m\n" + TRAP.encode() + after))
    assert found.message.startswith("Fatal trap 12")


@pytest.mark.parametrize(
    ("output", "prompt"),
    [
        ("Mounting from ufs:/dev/ada0p2 failed with error 19.\n\nmountroot> ", "mountroot>"),
        ("can't load 'kernel'\n\nType '?' for a list of commands.\nOK ", "OK"),
        ("Enter full pathname of shell or RETURN for /bin/sh: ", "single user mode"),
        ("FreeBSD/amd64 (dut) (ttyu0)\n\nlogin: ", ""),
        ("OK then\n", ""),
        ("", ""),
    ],
)
def test_prompt_is_found(output: str, prompt: str) -> None:
    assert prompt_in(output).partition(":")[0] == prompt
