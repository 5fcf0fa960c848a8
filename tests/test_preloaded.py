"""Visits that are forked from a process that has everything loaded, and what can go wrong there."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import netbisect
from netbisect.demo.lab.testbeds import TESTBEDS, lab_toml
from netbisect.workers import cli, start

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab

LAB = ("--lab", "lab.toml")
NOBODY = (*LAB, "recover", "--testbed", "nobody")
KNOWN = "netbisect-lab: there is no testbed 'nobody' in the lab file; there is c2558\n"
MODULE = "netbisect.workers.preloaded"


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def processes() -> dict[int, tuple[int, str]]:
    """Parent and command by process number."""
    said = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = (line.split(maxsplit=3) for line in said.splitlines())
    return {int(row[0]): (int(row[1]), row[3]) for row in rows if row[3:] and row[2][0] != "Z"}


class Worker:
    """A folder as a worker has it, in which commands are run as the worker runs them."""

    def __init__(self, folder: Path) -> None:
        # Longer than the path of a socket may be.
        self.folder = folder / ("a-long-name-" * 10)
        self.folder.mkdir()
        self.socket = self.folder / "netbisect-lab.socket"
        self.environment = {**os.environ, start.SOCKET: str(self.socket)}
        self.command = [sys.executable, "-m", "netbisect.workers.start"]

    def popen(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        environment = {**self.environment, **more.pop("environment", {})}
        return subprocess.Popen(
            [*more.pop("before", ()), *self.command, *arguments],
            env=environment,
            cwd=more.pop("cwd", self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def run(self, *arguments: str, **more: Any) -> tuple[int, str, str]:
        with self.popen(*arguments, **more) as process:
            out, error = process.communicate(timeout=60)
        return process.returncode, out, error

    def listening(self) -> list[int]:
        """The processes that fork for this worker, without what they have forked."""
        found = {
            number: parent
            for number, (parent, command) in processes().items()
            if MODULE in command and str(self.socket) in command
        }
        return [number for number, parent in found.items() if parent not in found]

    def visits(self) -> list[int]:
        """What they have forked."""
        own = set(self.listening())
        return [
            number
            for number, (_, command) in processes().items()
            if MODULE in command and str(self.socket) in command and number not in own
        ]

    def end(self) -> None:
        for number in (*self.listening(), *self.visits()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    one = Worker(tmp_path)
    (one.folder / "ssh").mkdir()
    config = one.folder / "ssh" / "config"
    config.write_text("")
    text = lab_toml([TESTBEDS["c2558"]], Path("/tree.git"), config, "GENERIC-NODEBUG")
    (one.folder / "lab.toml").write_text(text)
    yield one
    one.end()


def test_status_and_words_are_those_of_a_process_alone(worker: Worker) -> None:
    alone = worker.run(*NOBODY, environment={start.SOCKET: ""})
    assert alone == (cli.EXIT_USAGE, "", KNOWN)
    assert worker.listening() == []
    assert worker.run(*NOBODY) == alone
    for arguments in (("recover", "--help"), ("recover",), (*LAB, "doctor", "--json", "--x")):
        alone = worker.run(*arguments, environment={start.SOCKET: ""})
        assert worker.run(*arguments) == alone
    assert len(worker.listening()) == 1
    assert worker.visits() == []


def test_one_process_serves_all_visits_of_a_worker(worker: Worker) -> None:
    """Also those that come before it is there."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: worker.run(*NOBODY), range(4)))
    assert found == 4 * [(cli.EXIT_USAGE, "", KNOWN)]
    (first,) = worker.listening()
    assert worker.run(*NOBODY) == found[0]
    assert worker.listening() == [first]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="there is no /proc/PID/fd here")
def test_no_descriptor_stays_open(worker: Worker) -> None:
    worker.run(*NOBODY)
    (number,) = worker.listening()
    before = sorted(path.name for path in Path(f"/proc/{number}/fd").iterdir())
    for _ in range(3):
        worker.run(*NOBODY)
    assert sorted(path.name for path in Path(f"/proc/{number}/fd").iterdir()) == before


def test_every_visit_reads_its_own_lab_file_in_its_own_folder(
    worker: Worker, tmp_path: Path
) -> None:
    worker.run(*NOBODY)
    listening = worker.listening()
    place = worker.folder / "lab.toml"
    place.write_text(place.read_text().replace('name = "c2558"', 'name = "renamed"'))
    assert worker.run(*NOBODY)[2].endswith("there is renamed\n")
    assert worker.run(*NOBODY, cwd=tmp_path) == (
        cli.EXIT_USAGE,
        "",
        "netbisect-lab: lab.toml: cannot be read: No such file or directory\n",
    )
    assert worker.listening() == listening


def test_changed_code_is_not_served(worker: Worker, tmp_path: Path) -> None:
    """Not one visit is run by what was loaded before the change."""
    copy = tmp_path / "src" / "netbisect"
    copy.mkdir(parents=True)
    source = Path(netbisect.__file__).parent
    shutil.copy(source / "__init__.py", copy)
    for folder in ("bisect", "workers"):
        shutil.copytree(source / folder, copy / folder)
    worker.environment["PYTHONPATH"] = str(copy.parent)
    assert worker.run(*NOBODY) == (cli.EXIT_USAGE, "", KNOWN)
    (first,) = worker.listening()
    code = copy / "workers" / "lab.py"
    code.write_text(code.read_text().replace("there is no {kind}", "nobody knows a {kind}"))
    assert worker.run(*NOBODY)[2] == KNOWN.replace("there is no testbed", "nobody knows a testbed")
    (second,) = worker.listening()
    assert second != first


def test_another_setting_of_python_has_a_process_of_its_own(worker: Worker) -> None:
    worker.run(*NOBODY)
    other = {"PYTHONUTF8": "1"}
    assert worker.run(*NOBODY, environment=other) == (cli.EXIT_USAGE, "", KNOWN)
    assert len(worker.listening()) == 1


def test_a_process_that_was_killed_is_followed_by_another_one(worker: Worker) -> None:
    """Its socket is still there, and nobody listens."""
    worker.run(*NOBODY)
    (first,) = worker.listening()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not worker.listening())
    assert worker.socket.exists()
    assert worker.run(*NOBODY) == (cli.EXIT_USAGE, "", KNOWN)
    assert worker.listening() != [first]


def test_it_ends_with_its_worker(worker: Worker) -> None:
    """And takes its socket with it. The worker is a shell here."""
    shell = ["/bin/sh", "-c", '"$@"; status=$?; read -r more; exit $status', "worker"]
    with worker.popen(*NOBODY, before=shell) as process:
        wait_until(worker.listening)
        process.wait(60)
    wait_until(lambda: not worker.listening())
    assert not worker.socket.exists()


def test_without_a_folder_for_the_socket_it_is_a_process_of_its_own(worker: Worker) -> None:
    nowhere = {start.SOCKET: str(worker.folder / "nowhere" / "socket")}
    assert worker.run(*NOBODY, environment=nowhere) == (cli.EXIT_USAGE, "", KNOWN)
    assert worker.listening() == []


def test_a_client_that_says_nothing_holds_up_nobody(worker: Worker) -> None:
    worker.run(*NOBODY)
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as mute:
        os.chdir(worker.folder)
        mute.connect(worker.socket.name)
        os.chdir(here)
        mute.sendall(b"\x00")
        assert worker.run(*NOBODY) == (cli.EXIT_USAGE, "", KNOWN)
    wait_until(lambda: not worker.visits())


# ----------------------------------------------------------------------- in the middle of a visit


class Visit:
    """A trial whose receiver waits for a link, so that it takes as long as a test wants."""

    def __init__(self, worker: Worker, lab: RunningLab, logs: Path, **more: Any) -> None:
        kernel, archive = lab.kernel(10)
        lab.control("break", "c2558-dut", "cable-out")
        self.receiver = logs / "inet4-pf-stateful.receiver"
        self.lab = lab
        self.process = worker.popen(
            *("--lab", str(lab.files.lab), "trial", "--testbed", "c2558", "--kernel", kernel.key),
            *("--kernels", str(archive.parent.parent), "--scenario", "inet4-pf-stateful"),
            *("--logs", str(logs)),
            start_new_session=True,
            **more,
        )
        wait_until(self._waits)
        (self.number,) = worker.visits()

    def _waits(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()
        return self.receiver.exists() and "waiting for initial" in self.receiver.read_text()

    def sends(self) -> bool:
        """Whether something of it runs on the generator's host."""
        return "pkt-gen" in self.lab.ssh("c2558-gen", "ps -ax -o pid= -o ppid= -o pcpu= -o comm=")


@pytest.fixture
def visit(worker: Worker, c2558: RunningLab, tmp_path: Path) -> Iterator[Visit]:
    one = Visit(worker, c2558, tmp_path / "logs")
    yield one
    if one.process.poll() is None:
        one.process.kill()
    one.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_visit_that_is_told_to_stop_leaves_nothing_running(visit: Visit, number: int) -> None:
    """As a process of its own: its firewall is off, and it ends by the signal's status."""
    visit.process.send_signal(number)
    _, said = visit.process.communicate(timeout=30)
    assert visit.process.returncode == 128 + number, said
    assert visit.number not in processes()
    assert "pf.ko" not in visit.lab.ssh("c2558-dut", "kldstat")
    assert visit.lab.ssh("c2558-gen", "pkill -INT -x pkt-gen", status=1) == ""


def test_who_kills_the_command_kills_the_visit(visit: Visit, worker: Worker) -> None:
    """With what it runs on machines, at once; the next visit has the testbed for itself."""
    assert visit.sends()
    os.killpg(visit.process.pid, signal.SIGKILL)
    wait_until(lambda: visit.number not in processes() and not visit.sends())
    assert worker.run(*NOBODY)[0] == cli.EXIT_USAGE
    assert len(worker.listening()) == 1


def test_a_visit_ends_with_the_worker_that_was_killed(
    worker: Worker, c2558: RunningLab, tmp_path: Path
) -> None:
    """Nobody is left who would end it, and the worker's next visit needs the testbed."""
    shell = ["/bin/sh", "-c", '"$@"; exit $?', "worker"]
    one = Visit(worker, c2558, tmp_path / "logs", before=shell)
    assert one.sends()
    one.process.kill()
    one.process.wait()
    wait_until(lambda: one.number not in processes() and not one.sends())
    _, said = one.process.communicate(timeout=30)
    assert said.endswith("netbisect-lab: it was killed\n")


def test_a_visit_that_is_killed_is_told_as_one(visit: Visit) -> None:
    os.kill(visit.number, signal.SIGKILL)
    _, said = visit.process.communicate(timeout=30)
    assert visit.process.returncode == -signal.SIGKILL
    assert said.endswith("netbisect-lab: it was killed\n")


def test_a_visit_goes_on_without_the_process_it_was_forked_from(
    visit: Visit, worker: Worker
) -> None:
    """Another one takes its place meanwhile."""
    (number,) = worker.listening()
    os.kill(number, signal.SIGKILL)
    wait_until(lambda: number not in processes())
    assert worker.run(*NOBODY) == (cli.EXIT_USAGE, "", KNOWN)
    assert visit.process.poll() is None
    visit.process.terminate()
    visit.process.communicate(timeout=30)
    assert visit.process.returncode == 128 + signal.SIGTERM
