"""What a new service begins with: its folder, and what starts it with the machine."""

from __future__ import annotations

import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from netbisect.demo.tree.create import create
from netbisect.demo.tree.story import story
from netbisect.steps import cli, control
from netbisect.steps.settings import load
from netbisect.workers.cli import main as lab_main


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "service"
    done = run("init", "--to", "perf@lab.invalid", folder)
    assert done.exit_code == 0, done.output
    return folder


def test_a_new_service_has_settings_that_load(folder: Path) -> None:
    settings, lab = load(folder / control.SETTINGS)

    assert settings.mail.to == ("perf@lab.invalid",)
    assert lab.source.repository == "https://git.freebsd.org/src.git"
    assert [testbed.name for testbed in lab.testbeds] == ["router1"]


def test_what_the_settings_show_behind_a_sign_are_the_defaults(folder: Path) -> None:
    """Whoever takes the sign away changes nothing, but for the example of a database."""
    path = folder / control.SETTINGS
    before, _ = load(path)
    shown = [
        line.removeprefix("# ")
        if line.startswith("# ") and " = " in line and not line.startswith("# database")
        else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(shown))

    assert path.read_text().count("port = ") == 3
    assert load(path)[0] == before


def test_its_secrets_are_its_owners(folder: Path) -> None:
    """Each worker of the lab file has one of its own."""
    _, lab = load(folder / control.SETTINGS)
    passwords = {path.name: path for path in (folder / "workers").iterdir()}

    assert mode(folder) == 0o750
    assert mode(folder / "workers") == 0o700
    assert set(passwords) == set(lab.by_worker)
    assert {mode(path) for path in passwords.values()} == {0o600}
    assert min(len(path.read_text().strip()) for path in passwords.values()) > 30
    assert len({path.read_text() for path in passwords.values()}) == len(passwords) > 1


def test_two_services_have_different_passwords(folder: Path, tmp_path: Path) -> None:
    run("init", tmp_path / "other")
    theirs = {path.read_text() for path in (tmp_path / "other" / "workers").iterdir()}

    assert theirs.isdisjoint(path.read_text() for path in (folder / "workers").iterdir())


def test_a_lab_file_that_there_is_is_named_by_the_settings(folder: Path, tmp_path: Path) -> None:
    """And no example is written beside it."""
    lab = tmp_path / 'a "lab".toml'
    (folder / "lab.toml").rename(lab)
    done = run("init", "--lab", lab, tmp_path / "other")

    assert done.exit_code == 0, done.output
    assert f"netbisect-lab --lab {lab} doctor" in done.output
    assert not (tmp_path / "other" / "lab.toml").exists()
    settings, _ = load(tmp_path / "other" / control.SETTINGS)
    assert settings.lab == lab


def test_what_comes_next_is_said(tmp_path: Path) -> None:
    said = run("init", tmp_path / "service").output

    assert f"netbisect-lab --lab {tmp_path}/service/lab.toml doctor" in said
    assert f"netbisect check {tmp_path}/service" in said
    assert f"{tmp_path}/service/workers/NAME" in said


def test_a_folder_that_is_there_and_empty_is_taken(tmp_path: Path) -> None:
    (tmp_path / "service").mkdir()

    assert run("init", tmp_path / "service").exit_code == 0


@pytest.mark.parametrize("to", ["nobody", 'a"b', "two words@lab.invalid"])
def test_settings_that_would_not_do_are_not_written(tmp_path: Path, to: str) -> None:
    """The folder is as it was: absent, or empty."""
    (tmp_path / "there").mkdir()
    for name in ("absent", "there"):
        done = run("init", "--to", to, tmp_path / name)

        assert done.exit_code == 1
        assert f"mail: {to!r}: expected a mail address" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert list((tmp_path / "there").iterdir()) == []


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    done = run("init", tmp_path)

    assert done.exit_code == 1
    assert f"{tmp_path} is not empty" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_folder_that_cannot_be_made_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("init", tmp_path / "file")

    assert done.exit_code == 1
    assert done.output == f"Error: {tmp_path}/file cannot be used: Not a directory\n"


def test_the_example_of_a_lab_is_looked_at_and_found_wanting(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`netbisect-lab doctor` says which machines do not answer, in words."""
    assert lab_main(["--lab", str(folder / "lab.toml"), "doctor", "--testbed", "router1"]) == 4
    said = capsys.readouterr()

    assert "FAIL router1  dut router1" in said.out
    assert "Could not resolve hostname router1" in said.out
    assert "Traceback" not in said.out + said.err


def test_python_works_in_the_folder(folder: Path) -> None:
    """Nothing in it hides a module of Python's own."""
    subprocess.run(
        [sys.executable, "-c", "import bisect, random"], cwd=folder, check=True, timeout=60
    )


@pytest.mark.slow
def test_a_master_starts_in_it(folder: Path, tmp_path: Path) -> None:
    """Once the tree can be reached; also after the folder was moved."""
    tree = create(tmp_path / "tree.git", story())
    lab = folder / "lab.toml"
    lab.write_text(lab.read_text().replace("https://git.freebsd.org/src.git", str(tree.repository)))
    settings = folder / control.SETTINGS
    text = settings.read_text()
    with socket.socket() as one, socket.socket() as other:
        for probe, port in ((one, 8010), (other, 9989)):
            probe.bind(("127.0.0.1", 0))
            text = text.replace(f"# port = {port}", f"port = {probe.getsockname()[1]}")
    settings.write_text(text)
    moved = folder.rename(tmp_path / "moved")
    try:
        done = run("start", moved)
        assert done.exit_code == 0, done.output
        assert control.running(moved)
    finally:
        assert run("stop", moved).output == "The master has stopped.\n"


# ------------------------------------------------------------------------------ with the machine


def printed(manager: str, part: str, folder: Path, *options: str) -> str:
    done = run("service", manager, part, folder, *options)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("part", ["master", "worker"])
def test_systemd_understands_its_units(folder: Path, tmp_path: Path, part: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    unit = tmp_path / f"netbisect-{part}.service"
    unit.write_text(printed("systemd", part, folder))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_master_may_write_where_its_settings_say(folder: Path, tmp_path: Path) -> None:
    assert f"ReadWritePaths={folder}\n" in printed("systemd", "master", folder)

    settings = folder / control.SETTINGS
    settings.write_text(settings.read_text().replace('# state = "."', 'state = "../state"'))
    assert f"ReadWritePaths={folder} {tmp_path}/state\n" in printed("systemd", "master", folder)


@pytest.mark.parametrize("part", ["master", "worker"])
def test_a_shell_understands_the_scripts_of_rc_d(folder: Path, part: str) -> None:
    text = printed("rcd", part, folder, "--user", "bench")

    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert '_user:="bench"}"' in text
    assert f'_folder:="{folder}"}}"' in text
    assert "$$" not in text


@pytest.mark.parametrize("part", ["master", "worker"])
def test_programs_are_those_of_the_installation_that_is_asked(folder: Path, part: str) -> None:
    for manager in ("systemd", "rcd"):
        text = printed(manager, part, folder)
        program = "netbisect" if part == "master" else "buildbot-worker"

        assert str(Path(sys.executable).with_name(program)) in text


def test_a_name_that_would_need_quotes_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "with blank"
    folder.mkdir()
    done = run("service", "rcd", "worker", folder)

    assert done.exit_code == 1
    assert f"folder '{folder}' cannot stand in such a file" in done.output


def test_a_master_without_settings_gets_no_unit(tmp_path: Path) -> None:
    done = run("service", "systemd", "master", tmp_path)

    assert done.exit_code == 1
    assert str(tmp_path / "netbisect.toml") in done.output
