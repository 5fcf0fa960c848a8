"""The demonstration: processes at its end, removal of folders, and progress messages."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import captured

from netbisect.demo.service import DemoService
from netbisect.steps.service import control
from netbisect.workers.transport.processes import (
    has_working_directory,
    processes_with_environment,
    working_directory_in,
)

ENVIRONMENT = {name: os.environ[name] for name in ("HOME", "PATH")}
MODULE = [sys.executable, "-m", "netbisect.demo"]


def demo(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    return captured([*MODULE, command, "--place", str(place)], env=ENVIRONMENT)


def running_processes(place: Path) -> list[int]:
    [(variable, value)] = DemoService(place).environment.items()
    return processes_with_environment(variable, value)


@pytest.fixture
def unrelated(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in its own group that is unrelated to netbisect."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    process = subprocess.Popen(["sleep", "600"], cwd=folder, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def folder_exists(place: Path) -> bool:
    return (place / "upstream" / "src.git").exists()


def workers_exist(place: Path) -> bool:
    return (place / "workers").exists()


def kernel_exists(place: Path) -> bool:
    return len(list((place / "lab" / "builder" / "kernels").glob("*/"))) > 1


@pytest.mark.parametrize(
    ("command", "moment", "number"),
    [
        ("lab", folder_exists, signal.SIGINT),
        ("play", workers_exist, signal.SIGINT),
        pytest.param("play", kernel_exists, signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_interruption_leaves_no_process(
    tmp_path: Path, command: str, moment: Callable[[Path], bool], number: signal.Signals
) -> None:
    """The signal is sent again and again to the process group of make, as from a terminal."""
    place = tmp_path / "service"
    makefile = tmp_path / "Makefile"
    makefile.write_text(f"demo:\n\t@{shlex.join(MODULE)} {command} --place {place}\n")
    with (tmp_path / "output").open("wb") as stream:
        make = subprocess.Popen(
            ["make", "-f", str(makefile), "demo"],
            env=ENVIRONMENT,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        while not moment(place):
            assert make.poll() is None, (tmp_path / "output").read_text()
            time.sleep(0.01)
        while make.poll() is None:
            os.killpg(make.pid, number)
            time.sleep(0.05)
        assert make.returncode != 0
        output = (tmp_path / "output").read_text()
        assert f"interrupted by {number.name}; everything is stopped" in output
        assert "Traceback" not in output
        assert running_processes(place) == []
    finally:
        DemoService(place).stop()


@pytest.mark.long
def test_down_ends_processes_of_a_killed_demonstration(tmp_path: Path) -> None:
    place = tmp_path / "service"
    with subprocess.Popen(
        [*MODULE, "play", "--place", str(place)], env=ENVIRONMENT, stdout=subprocess.DEVNULL
    ) as process:
        while not workers_exist(place):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert running_processes(place)
    assert demo("down", place).returncode == 0
    assert running_processes(place) == []
    assert not place.exists()


@pytest.mark.parametrize("command", ["play", "up", "down"])
def test_folder_without_the_mark_is_not_removed(tmp_path: Path, command: str) -> None:
    thesis = tmp_path / "work" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("years")
    done = demo(command, thesis.parent)
    assert done.returncode == 1
    assert "was not made by the demonstration (it has no file netbisect-demo)" in (
        done.stdout + done.stderr
    )
    assert "Traceback" not in done.stderr
    assert thesis.read_text() == "years"


@pytest.mark.parametrize("command", ["play", "up"])
def test_second_demonstration_in_a_folder_is_refused(tmp_path: Path, command: str) -> None:
    """It would stop the processes of the first one, and the first one then its own."""
    place = tmp_path / "service"
    place.mkdir()
    first = DemoService(place)
    with subprocess.Popen(["sleep", "600"], env={**ENVIRONMENT, **first.environment}) as process:
        first.claim()
        done = demo(command, place)

        assert done.returncode == 1
        assert f"another demonstration is being played in {place}: wait" in done.stderr
        assert process.poll() is None
        process.kill()


def test_process_with_a_reused_id_is_not_killed(
    tmp_path: Path, unrelated: subprocess.Popen[bytes]
) -> None:
    """A reboot may leave an old twistd.pid."""
    service = DemoService(tmp_path / "service")
    service.build_lab(testbeds=["c2558"])
    service.processes.mkdir()
    for path in (service.processes / "worker-c2558.pid", service.place / "twistd.pid"):
        path.write_text(str(unrelated.pid))
    assert has_working_directory(unrelated.pid, tmp_path / "elsewhere")
    assert control.master_pid(service.place) is None
    assert not control.stop(service.place)
    service.stop()
    assert unrelated.poll() is None
    assert not list(service.processes.glob("*.pid"))


def test_working_directory_is_read_from_procstat() -> None:
    """FreeBSD has no /proc by default."""
    output = (
        "  PID COMM                FD T V FLAGS    REF  OFFSET PRO NAME\n"
        " 4711 python3.11         text v r r-------   -       - -   /usr/local/bin/python3.11\n"
        " 4711 python3.11          cwd v d r-------   -       - -   /var/net bisect\n"
        " 4711 python3.11         root v d r-------   -       - -   /\n"
    )
    assert working_directory_in(output) == "/var/net bisect"
    assert working_directory_in("procstat: kinfo_getproc: No such process") is None


def test_wait_is_reported_and_limited() -> None:
    program = (
        "import time\n"
        "from netbisect.demo.watch import ProgressWatch\n"
        "watch = ProgressWatch(silence=0.1, limit=1.0)\n"
        "watch.log = '/there/twistd.log'\n"
        "watch.begin()\n"
        "watch.waits_for('the end of the night')\n"
        "time.sleep(600)\n"
    )
    done = captured([sys.executable, "-c", program], env=ENVIRONMENT)
    assert re.search(
        r"^\.\.\. waiting for the end of the night, \d+ s without news$", done.stdout, re.MULTILINE
    )
    assert re.search(
        r"StuckError: nothing has happened for \d+ s; "
        r"it was waiting for the end of the night; see /there/twistd.log$",
        done.stderr,
    )


def test_master_restarted_by_hand_is_stopped(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    place.mkdir()
    (place / "netbisect-demo").touch()
    with subprocess.Popen(["sleep", "600"], cwd=place, start_new_session=True) as master:
        (place / "twistd.pid").write_text(str(master.pid))
        DemoService(place).stop()

        assert master.wait(300) == -signal.SIGTERM
