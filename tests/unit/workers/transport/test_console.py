"""Recording of the console during a trial."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from programs import command_lines
from waiting import wait_until

from netbisect.workers.config.testbed import Console
from netbisect.workers.transport import console
from netbisect.workers.transport.console import ConsoleTap
from netbisect.workers.transport.lifetime import ProcessGroup


def wait_for(tap: ConsoleTap, text: str) -> None:
    wait_until(lambda: text in tap.output())


def shell(script: str) -> Console:
    return Console(("sh", "-c", script))


def test_output_is_logged_and_readable(tmp_path: Path) -> None:
    log = tmp_path / "trial" / "console.log"
    with ConsoleTap(shell(r"printf 'one\r\n'; sleep 60"), log) as tap:
        wait_for(tap, "one\n")
        tap.mark()
        assert tap.output() == ""
        tap.note("power cycle")
    assert log.read_bytes() == b"one\r\n\n[netbisect: power cycle]\n"
    assert tap.failures == 0


def test_command_that_ends_is_restarted_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_PAUSE", 0.02)
    log = tmp_path / "console.log"
    script = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n+1)) >{tmp_path}/n; "
    script += "echo start $n; [ $n -ge 2 ] && sleep 60; exit 3"
    with ConsoleTap(shell(script), log) as tap:
        wait_for(tap, "start 2")
    assert tap.failures == 2
    assert log.read_text().count("the console's command ended with status 3") == 2


def test_input_of_the_command_does_not_end(tmp_path: Path) -> None:
    """`ipmitool sol activate` exits at the end of its input: ipmi_sol_red_pill() in ipmi_sol.c."""
    script = "timeout 0.1 cat; echo status $?; sleep 60"
    with ConsoleTap(shell(script), tmp_path / "console.log") as tap:
        wait_for(tap, "\n")
        assert tap.output() == "status 124\n"


def test_missing_command_is_logged(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    with ConsoleTap(Console((str(tmp_path / "none"),)), log) as tap:
        assert tap.output() == ""
    assert tap.failures == 1
    assert "cannot be run: No such file or directory" in log.read_text()


def test_command_that_ignores_signals_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that not even SIGKILL ends, as in a system call that hangs, delays nothing."""
    monkeypatch.setattr(console, "_PATIENCE", 0.1)
    killed = ProcessGroup.end
    for end in (killed, lambda _: None):
        monkeypatch.setattr(ProcessGroup, "end", end)
        with ConsoleTap(shell("trap '' TERM; echo up; exec sleep 600"), tmp_path / "log") as tap:
            wait_for(tap, "up")
            process = tap._process
        assert (process.poll() is None) is (end is not killed)
        killed(tap._group)
        process.wait()


def test_command_without_a_guard_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(console, "ProcessGroup", fail)
    with ConsoleTap(Console(("sleep", "612")), tmp_path / "log") as tap:
        assert tap.failures == 1
        wait_until(lambda: "sleep 612" not in command_lines())
    assert "sleep cannot be run: Resource temporarily unavailable" in (tmp_path / "log").read_text()


def test_log_of_a_busy_console_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end, which may contain a panic, is kept."""
    monkeypatch.setattr(console, "_FILE", 200_000)
    monkeypatch.setattr(console, "_KEPT", 50_000)
    log = tmp_path / "console.log"
    flood = "yes 'ix0: Watchdog timeout' | head -n 100000; echo the end; sleep 60"
    with ConsoleTap(shell(flood), log) as tap:
        wait_for(tap, "the end")
        assert len(tap.output()) <= 50_000
    text = log.read_text()
    assert len(text) <= 300_000
    assert text.startswith("[netbisect: what was before this is left out]\n")
    assert text.endswith("the end\n")
