"""What is done in a process of its own."""

from __future__ import annotations

import functools
import os
import signal
import sys

import pytest

from netbisect.workers.aside import aside
from netbisect.workers.tomlfile import FileError

SEEN: list[int] = []


def test_what_it_returns_comes_back_and_what_it_changed_does_not() -> None:
    def work() -> tuple[int, list[str]]:
        SEEN.append(1)
        return os.getpid(), ["a" * 100_000, "b"]

    process, texts = aside(work)
    assert process != os.getpid()
    assert [len(text) for text in texts] == [100_000, 1]
    assert SEEN == []


def test_what_it_raises_is_raised_here() -> None:
    def wrong() -> None:
        raise FileError("lab.toml: cannot be read")

    with pytest.raises(FileError, match=r"lab\.toml: cannot be read"):
        aside(wrong)
    with pytest.raises(SystemExit) as ended:
        aside(functools.partial(sys.exit, 2))
    assert ended.value.code == 2


def test_what_it_prints_comes_once_and_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    sys.stdout.write("before\n")
    aside(functools.partial(sys.stdout.write, "there\n"))
    sys.stdout.write("after\n")
    sys.stdout.flush()
    assert capfd.readouterr().out == "before\nthere\nafter\n"


def test_a_process_that_is_killed_is_told() -> None:
    with pytest.raises(ChildProcessError):
        aside(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_what_cannot_be_carried_over_is_told() -> None:
    with pytest.raises(Exception, match="pickle"):
        aside(lambda: lambda: None)
