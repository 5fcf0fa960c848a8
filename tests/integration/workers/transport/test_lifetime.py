"""Processes of a trial end with it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import pytest
from lab_fixtures import RunningLab
from localbisect_fixtures import interruptible
from programs import command_lines, runs
from waiting import wait_until

from netbisect.workers.config.lab import Ssh
from netbisect.workers.config.testbed import Console, Power
from netbisect.workers.config.vm import HOST_MARK
from netbisect.workers.transport import lifetime, power
from netbisect.workers.transport.console import ConsoleTap
from netbisect.workers.transport.errors import CommandError
from netbisect.workers.transport.ssh import Connections

WORKER = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:], stdout=-1)"]
"""Reads the output of its command, like a Buildbot worker."""


class RunningTrial:
    """A trial whose receiver waits for a link, and whose run takes longer than a test."""

    def __init__(self, lab: RunningLab, logs: Path, before: Sequence[str] = ()) -> None:
        kernel, archive = lab.kernel(10)
        lab.control("break", "c2558-dut", "cable-out")
        self.receiver = logs / "inet4-pf-stateful.receiver"
        self.lab = lab
        self.logs = logs
        patient = lab.files.lab.with_name("patient.toml")  # in simulated time, which runs faster
        longer = "= 100000.0\nrun = 36000.0"
        patient.write_text(lab.files.lab.read_text().replace("= 3600.0", longer))
        command = [
            *(sys.executable, "-m", "netbisect.workers.cli.main", "--lab", str(patient), "trial"),
            *("--testbed", "c2558", "--kernel", kernel.key, "--kernels", archive.parent.parent),
            *("--scenario", "inet4-pf-stateful", "--logs", str(logs)),
        ]
        # Paths of temporary files identify the processes of the trial.
        environment = {**os.environ, "TMPDIR": str(logs.parent)}
        with (logs.parent / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [*before, *map(str, command)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=interruptible,  # noqa: PLW1509 - no thread of the test holds a lock
            )
        wait_until(self._waits)

    def _waits(self) -> bool:
        assert self.process.poll() is None, (self.logs.parent / "stderr").read_text()
        return self.receiver.exists() and "waiting for initial" in self.receiver.read_text()

    def processes(self) -> list[str]:
        """Command lines of the trial, its guard process and its ssh clients."""
        return [line for line in command_lines() if str(self.logs.parent) in line]

    def sends(self) -> bool:
        return "pkt-gen" in self.lab.ssh("c2558-gen", "ps -ax -o pid= -o ppid= -o pcpu= -o comm=")

    def has_ended(self) -> bool:
        return not self.processes() and not self.sends()


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a name that is short enough for sockets."""
    return tmp_path_factory.mktemp("t")


@pytest.fixture
def trial(c2558: RunningLab, place: Path) -> Iterator[RunningTrial]:
    one = RunningTrial(c2558, place / "logs")
    yield one
    one.process.kill()
    one.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stopped_trial_leaves_nothing_running(trial: RunningTrial, number: int) -> None:
    """The firewall is off, and the exit status is that of the signal."""
    trial.process.send_signal(number)
    trial.process.communicate(timeout=300)
    assert trial.process.returncode == 128 + number
    assert trial.processes() == []
    assert "pf.ko" not in trial.lab.ssh("c2558-dut", "kldstat")
    assert trial.lab.ssh("c2558-gen", "pkill -INT -x pkt-gen", status=1) == ""


def test_killed_trial_ends_its_ssh_clients(trial: RunningTrial) -> None:
    """Remote commands of the clients end, too."""
    assert trial.sends()
    for kind in ("ControlMaster=yes", "ControlMaster=no"):
        assert any(kind in line for line in trial.processes())
    trial.process.kill()
    wait_until(trial.has_ended)
    assert not [*trial.logs.parent.glob("nb-*")]


def test_trial_ends_with_its_killed_worker(c2558: RunningLab, place: Path) -> None:
    """The next trial of the worker needs the testbed."""
    one = RunningTrial(c2558, place / "logs", before=WORKER)
    assert one.sends()
    one.process.kill()
    one.process.communicate()
    wait_until(one.has_ended)
    assert "pf.ko" in c2558.ssh("c2558-dut", "kldstat"), (
        "the trial cleaned up instead of being killed"
    )


def attach(folder: Path) -> None:
    silent = f"(sleep 600) & echo $! $$ >{folder}/new && mv {folder}/new {folder}/processes; cat"
    with ConsoleTap(Console(("sh", "-c", silent)), folder / "log"):
        time.sleep(600)


def test_killed_trial_ends_its_console(tmp_path: Path) -> None:
    """A command that prints nothing does not notice that its reader is gone."""
    process = get_context("fork").Process(target=attach, args=(tmp_path,))
    process.start()
    wait_until((tmp_path / "processes").exists)
    numbers = (tmp_path / "processes").read_text().split()
    process.kill()
    process.join()
    wait_until(lambda: not any(map(runs, map(int, numbers))))


def test_living_reader_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that ends later and an output without a reader end nothing either."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as output, Path(os.devnull).open("w") as nothing:
        for stream in (output, nothing, None):
            monkeypatch.setattr(sys, "__stdout__", stream)
            with lifetime.ending_with_reader():
                pass
        os.close(reading)
        time.sleep(0.1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of such a process
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
def test_process_that_does_not_end_after_sigkill_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one of sudo(8), or one in a system call that hangs."""

    def refuse(process: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(lifetime, "KILL_SECONDS", 0.1)
    monkeypatch.setattr(os, "killpg", refuse)
    monkeypatch.setattr(subprocess.Popen, "send_signal", lambda *_: None)
    switch, command = tmp_path / "switch", tmp_path / "command"
    hang = ["sh", "-c", 'trap "" TERM; echo $$ >"$0"; exec sleep 60']
    assert power.cycle(Power([*hang, str(switch)], 1.0)) == "it had not ended after 1.0 s"
    with Connections(Ssh()) as connections:
        here = connections.machine(f"{HOST_MARK}{tmp_path}")
        with pytest.raises(CommandError, match="did not end in time"):
            here.run([*hang, str(command)], timeout=1.0)
        for left in (switch, command):
            os.kill(int(left.read_text()), signal.SIGKILL)
    gc.collect()  # the processes that were left, while the warning about them is ignored
