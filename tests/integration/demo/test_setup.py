"""Files and processes of the demonstration and of the simulated lab."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from lab_fixtures import RunningLab

from netbisect.demo.__main__ import main
from netbisect.demo.lab import setup
from netbisect.demo.lab.config import LabError
from netbisect.demo.service import DemoService
from netbisect.demo.tree.create import SampleTree
from netbisect.steps.service.rights import Right
from netbisect.steps.service.settings import load as load_service
from netbisect.steps.web.login import HtpasswdAuth, make_auth, user_rights


def test_failed_setup_leaves_nothing(sample_tree: SampleTree, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="rev-list"):
        setup.prepare(tmp_path / "lab", repository=tmp_path / "none.git")
    with pytest.raises(LabError) as caught:
        setup.prepare(tmp_path, repository=sample_tree.repository, testbeds=("c2758",))
    known = ", ".join(setup.TESTBEDS)
    assert str(caught.value) == f"no such testbed: c2758; found {known}"
    assert not [*tmp_path.iterdir()]
    (tmp_path / "mine").write_text("")
    with pytest.raises(LabError, match="is not empty"):
        setup.prepare(tmp_path, repository=sample_tree.repository)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def taken(number: int) -> list[int]:
    with setup.free_ports(number) as found:
        return found


def test_ports_are_returned_again_after_all_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(setup, "_PORTS", range(19_000, 19_005))
    first = taken(2)
    with setup.free_ports(2) as second:
        assert not set(first) & set(second)
        [last] = taken(1)
        assert {*first, *second, last} == set(range(19_000, 19_005))
        assert taken(2) == first
        with pytest.raises(LabError, match=r"fewer than 4 TCP ports of 127\.0\.0\.1 are free"):
            taken(4)
    [counter] = tmp_path.iterdir()
    counter.write_text("")
    assert taken(2) == first
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(LabError, match="cannot be opened: No such file or directory"):
        taken(1)


def test_paths_stay_on_the_disk_of_the_machine(running_lab: RunningLab) -> None:
    for path in ("/../../../../etc/passwd", "/etc/passwd", "../../host_key"):
        assert "No such file" in running_lab.ssh("e5-2650-dut", f"cat {path}", status=1)


def test_down_lists_stopped_processes_and_removed_folders(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    place.mkdir()
    (place / "netbisect-demo").touch()
    environment = {**os.environ, **DemoService(place).environment}
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        done = CliRunner().invoke(main, ["down", "--place", str(place)])

    assert done.output == f"stopped 1 process of the demonstration; removed {place}\n"
    assert process.returncode != 0
    assert not place.exists()


def test_each_demonstration_has_its_own_password(tmp_path: Path) -> None:
    """The password is not in any file."""
    passwords = []
    for name in ("one", "two"):
        service = DemoService(tmp_path / name)
        service.build()
        service.add_login()
        passwords.append(service.password)
        settings, _ = load_service(service.place / "netbisect.toml")
        auth = make_auth(settings)
        assert isinstance(auth, HtpasswdAuth)
        assert auth.check_credentials(b"demo", service.password.encode())
        assert not auth.check_credentials(b"demo", b"demo")
        assert Right.ASK in user_rights(settings, {"username": "demo"})
        kept = "".join(path.read_text() for path in service.place.iterdir() if path.is_file())
        assert service.password not in kept
    assert passwords[0] != passwords[1]
