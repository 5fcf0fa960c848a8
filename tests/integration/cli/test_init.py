"""`netbisect init`, `service` and `mails`, and master.cfg."""

from __future__ import annotations

import json
import pwd
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from buildbot.config.master import FileLoader, MasterConfig
from programs import captured
from programs import netbisect as run

from netbisect.bisect.model.mail import Mail
from netbisect.demo.lab.setup import free_ports
from netbisect.demo.tree.create import create
from netbisect.demo.tree.story import story
from netbisect.steps.service import compute, control
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_service_ledger
from netbisect.workers.cli.main import main as lab_main
from netbisect.workers.config.toml import FileError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "service"
    done = run("init", "--to", "perf@lab.invalid", folder)
    assert done.exit_code == 0, done.output
    return folder


def test_new_settings_are_valid_and_commented_ones_are_the_defaults(folder: Path) -> None:
    path = folder / control.SETTINGS
    before, lab = load(path)
    assert before.mail.to == ("perf@lab.invalid",)
    assert lab.source.repository == "https://git.freebsd.org/src.git"
    assert [testbed.name for testbed in lab.testbeds] == ["router1"]

    shown = [
        line.removeprefix("# ")
        if line.startswith("# ") and " = " in line and not line.startswith("# database")
        else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(shown))

    assert path.read_text().count("port = ") == 3
    assert load(path)[0] == before
    text = (folder / "lab.toml").read_text()
    wrong = text.replace("[[testbeds]]\n", "[[testbeds]]\nowner = '&@[9'\n", 1)
    (folder / "lab.toml").write_text(wrong)
    with pytest.raises(FileError, match=r"lab.toml: testbeds\[0\].owner: '&@\[9': expected a mail"):
        load(path)


@pytest.mark.parametrize("to", ["nobody", 'a"b', "two words@lab.invalid"])
def test_invalid_settings_are_not_written(tmp_path: Path, to: str) -> None:
    """An absent folder stays absent, and an empty folder empty."""
    (tmp_path / "empty").mkdir()
    for name in ("absent", "empty"):
        done = run("init", "--to", to, tmp_path / name)

        assert done.exit_code == 1
        assert f"mail: {to!r}: expected a mail address" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_file_a_folder_with_files_or_a_second_repository_is_refused(tmp_path: Path) -> None:
    """The lab file has a repository."""
    (tmp_path / "file").write_text("")
    both = ("--repository", "src.git", "--lab", tmp_path / "file")
    done = run("init", *both, tmp_path / "new")
    assert done.exit_code == 2
    assert "--repository and --lab are mutually exclusive" in done.output
    for path, why in (
        (tmp_path, "is not empty"),
        (tmp_path / "file", "cannot be used: Not a directory"),
    ):
        done = run("init", path)
        assert done.exit_code == 1
        assert f"Error: {path} {why}" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    folder = tmp_path / "my service"
    assert f"netbisect check '{folder}'\n" in run("init", folder).output, "the path is quoted"


def test_doctor_reports_the_example_machines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab_main(["--lab", str(folder / "lab.toml"), "doctor", "--testbed", "router1"]) == 4
    output = capsys.readouterr()

    assert "FAIL router1  dut router1" in output.out
    assert "Could not resolve hostname router1" in output.out
    assert "Traceback" not in output.out + output.err


@pytest.mark.long
def test_a_master_starts_in_a_moved_folder(folder: Path, tmp_path: Path) -> None:
    tree = create(tmp_path / "tree.git", story())
    lab = folder / "lab.toml"
    lab.write_text(lab.read_text().replace("https://git.freebsd.org/src.git", str(tree.repository)))
    settings = folder / control.SETTINGS
    text = settings.read_text()
    with free_ports(2) as (web, workers):
        text = text.replace("# port = 8010", f"port = {web}")
        text = text.replace("# port = 9989", f"port = {workers}")
    settings.write_text(text)
    moved = folder.rename(tmp_path / "moved")
    try:
        done = run("start", moved)
        assert done.exit_code == 0, done.output
        assert control.master_pid(moved)
        assert control._is_upgraded(moved, load(moved / control.SETTINGS)[0])
    finally:
        assert run("stop", moved).output == "The master has stopped.\n"


def printed(manager: str, part: str, folder: Path, *options: str) -> str:
    """The output of `netbisect service`."""
    done = run("service", manager, part, folder, *options)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("part", ["master", "worker"])
def test_rc_scripts_and_systemd_units_are_valid(folder: Path, tmp_path: Path, part: str) -> None:
    text = printed("rcd", part, folder, "--user", "bench")
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert '_user:="bench"}"' in text
    assert f'_folder:="{folder}"}}"' in text
    assert "$$" not in text
    of_root = printed("rcd", part, folder, "--user", "root").splitlines()
    script = "\n".join(line for line in of_root if "_user:=" in line or "_env=" in line)
    environment = captured(["sh", "-c", f"{script}\necho ${{netbisect_env-$netbisect_worker_env}}"])
    assert environment.stdout.startswith(f"HOME={pwd.getpwnam('root').pw_dir} PATH=/")
    spaced = tmp_path / "with space"
    spaced.mkdir()
    done = run("service", "rcd", part, spaced)
    assert done.exit_code == 1
    assert f"folder '{spaced}' needs quoting" in done.output

    settings = folder / control.SETTINGS
    answers = 'answers = "a@lab.invalid"\nanswers_maildir = "../mails"'
    settings.write_text(settings.read_text().replace("[mail]", f"[mail]\n{answers}"))
    unit = tmp_path / f"netbisect-{part}.service"
    unit.write_text(printed("systemd", part, folder))
    writes = f"{folder} -{folder.parent / 'mails'}" if part == "master" else folder
    assert f"ReadWritePaths={writes}\n" in unit.read_text()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    verified = captured(["systemd-analyze", "verify", "--man=no", str(unit)])
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


def test_unsent_mails_are_listed_and_retried(folder: Path) -> None:
    ledger = open_service_ledger(load(folder / control.SETTINGS)[0])
    assert run("mails", "--folder", folder).output == "No unsent mail.\n"
    mail = ledger.mails.post("one", Mail("a drop", "a text\n"), ["a@lab.invalid"])
    ledger.mails.failed(mail.id, "550 no such user", None)

    listed = run("mails", "--folder", folder).output
    [row] = json.loads(run("mails", "--json", "--folder", folder).output)
    again = run("mails", "retry", mail.id, "--folder", folder)

    assert "failed" in listed
    assert "550 no such user" in listed
    assert (row["id"], row["state"], row["recipients"]) == (mail.id, "failed", ["a@lab.invalid"])
    assert again.output == f"mail {mail.id} will be sent: a drop\n"
    assert [waiting.id for waiting in ledger.mails.waiting()] == [mail.id]
    assert run("mails", "retry", 99, "--folder", folder).output == "Error: there is no mail 99\n"
    ledger.engine.dispose()


def test_the_janitor_removes_logs_after_log_days(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compute, "_process", None)  # the configuration sets it
    settings = folder / control.SETTINGS
    settings.write_text("log_days = 30\n" + settings.read_text())
    master_cfg = str(Path(__file__).parents[3] / "master.cfg")

    config: MasterConfig = FileLoader(str(folder), master_cfg).loadConfig()

    [janitor] = [one for one in config.builders if one.name == "__Janitor"]
    [step] = janitor.factory.steps
    assert step.step_class.__name__ == "LogChunksJanitor"
    assert step.kwargs == {"logHorizon": timedelta(days=30)}
    settings.write_text(settings.read_text().replace("log_days = 30", "log_days = 1000000"))
    assert "log_days 1000000: expected 1 to 36500" in run("check", folder).output
