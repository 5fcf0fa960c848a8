"""`netbisect check`, `start`, `night`, `profile` and `follow`."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
from pathlib import Path

import pytest
from programs import netbisect as run

from netbisect.bisect.model.jobs import NightlyJob, ProfileJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import ProfileResult, Unfinished
from netbisect.steps.service import control
from netbisect.steps.service.settings import load, load_settings
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.ledger import Ledger, open_ledger


def change(folder: Path, old: str, new: str) -> None:
    path = folder / control.SETTINGS
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def refused(folder: Path) -> str:
    """The error message of a refused start."""
    result = run("start", folder)

    assert result.exit_code == 1
    assert not (folder / "twistd.pid").exists()
    assert "Traceback" not in result.output
    _, error, text = result.output.rpartition("Error: ")  # after progress and warnings
    assert error
    return text.strip()


def test_a_check_connects_to_the_mail_server(own_service: Path) -> None:
    """It passes with a warning if the server does not answer."""
    result = run("check", own_service)
    assert result.exit_code == 0, result.output
    assert "main is at" in result.output
    assert "FAIL" not in result.output
    assert re.search(r"(?m)^warn mail server .*: Connection refused; mails wait", result.output)

    port = load_settings(own_service / control.SETTINGS).mail.port
    for greeting, label in ((b"220 lab.invalid ready\r\n", "ok"), (b"HTTP/1.1 400\r\n", "warn")):
        with socket.create_server(("127.0.0.1", port)) as listener:
            thread = threading.Thread(target=greet, args=(listener, greeting))
            thread.start()
            result = run("check", own_service)
            thread.join()
        assert re.search(rf"^{label} +mail server", result.output, re.MULTILINE)
        assert result.exit_code == 0


def greet(listener: socket.socket, greeting: bytes) -> None:
    client, _ = listener.accept()
    with client:
        client.sendall(greeting)


def test_a_check_prints_json(own_service: Path) -> None:
    with (own_service / "lab" / "lab.toml").open("a") as lab:
        gone = f'first = "{"e" * 40}"\nlast = "{"e" * 40}"\n'
        lab.write(f'[[source.overlays]]\nname = "gone"\npatch = "lab.toml"\n{gone}')
    checks = json.loads(run("check", "--json", own_service).stdout)
    [overlay] = [one for one in checks if one["what"] == "overlay"]
    assert not overlay["good"]
    assert not overlay["needed"]
    change(own_service, 'branches = ["main"]', 'branches = ["main", "stable/15"]')
    result = run("check", "--json", own_service)
    found = {check["what"]: check for check in json.loads(result.stdout)}

    assert result.exit_code == 1
    assert not found["branch"]["good"]
    assert found["database"]["good"]
    change(own_service, "poll = 60", 'poll = 60\ndatabase = "netbisect.sqlite"')
    (own_service / "state.sqlite").write_text("no database\n" * 100)
    output = run("check", own_service).output
    assert "is not a database URL" in output
    assert "state.sqlite cannot be read: file is not a database; if it is damaged" in output


def test_hanging_upgrade_is_killed_and_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / control.TAC)  # reading it blocks

    with pytest.raises(control.ServiceError, match=r"did not finish within 0\.5 s and was killed"):
        control._buildbot(tmp_path, {}, "upgrade-master", limit=0.5)


def test_supervised_starts_need_a_clone(own_service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted service uses its clone while the server is away, or silent."""
    lab = own_service / "lab" / "lab.toml"
    address = load(own_service / control.SETTINGS)[1].source.repository
    assert run("check", own_service).exit_code == 0
    lab.write_text(lab.read_text().replace(address, f"{address}.away"))
    assert "cannot be read" in refused(own_service)
    assert run("check", own_service).exit_code == 1
    assert control.prepare_start(own_service, supervised=True).branches == ("main",)
    monkeypatch.setattr(control, "_FETCH_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"git://127.0.0.1:{silent.getsockname()[1]}/src"
        lab.write_text(lab.read_text().replace(f"{address}.away", url))
        assert control.prepare_start(own_service, supervised=True).branches == ("main",)
    shutil.rmtree(load_settings(own_service / control.SETTINGS).mirror)
    with pytest.raises(control.ServiceError, match="cannot be read"):
        control.prepare_start(own_service, supervised=True)


def test_a_port_in_use_is_refused(own_service: Path) -> None:
    settings, _ = load(own_service / control.SETTINGS)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", settings.web.port))
        taken.listen()
        message = refused(own_service)

    where = f"web.port: 127.0.0.1:{settings.web.port}"
    assert message == f"{where} is unavailable: Address already in use"
    assert "Address family" not in control._port("web.port", "::1", 0).found


def test_a_nightly_job_is_queued_until_it_has_a_result(own_service: Path) -> None:
    """A job without a result is queued again, several times a day if necessary."""
    ledger = open_ledger(load(own_service / control.SETTINGS)[0].database)
    for _ in range(3):
        assert "is to be measured" in run("night", "--testbed", "c2558", own_service).output
        [record] = ledger.jobs.all_open()
        with ledger.jobs.closing(record, Unfinished("no answer")):
            pass
    first = run("night", "--testbed", "c2558", own_service)
    assert run("night", own_service).exit_code == 0
    records = ledger.jobs.all_open()

    assert "is to be measured" in first.output
    assert sorted(record.job.testbed for record in records) == ["c2558", "e5-2650"]
    assert all(isinstance(record.job, NightlyJob) for record in records)
    status = json.loads(run("status", "--json", own_service).stdout)
    assert [job["kind"] for job in status["jobs"]] == ["Night", "Night"]
    output = run("status", own_service).output
    assert f"Night {records[0].id} on c2558, main" in output
    assert f"The master is not running: netbisect start {own_service}" in output


def test_a_profile_is_queued_until_it_has_a_result(own_service: Path) -> None:
    command = ("profile", "--testbed", "c2558", "main~3", "main", "--folder", own_service)
    run(*command)
    ledger = open_ledger(load(own_service / control.SETTINGS)[0].database)
    [failed] = ledger.jobs.all_open()
    with ledger.jobs.closing(failed, Unfinished("no event")):
        pass
    first = run(*command)
    [record] = ledger.jobs.all_open()

    assert record.id != failed.id
    assert record.job == failed.job
    assert f"netbisect/profile-{record.id}.html" in first.output
    assert isinstance(record.job, ProfileJob)
    assert record.job.scenarios == ("inet4-forwarding",)
    assert len(record.job.revisions) == 2
    hashes = record.job.revisions
    by_hash = run("profile", "--testbed", "c2558", *hashes, "--folder", own_service)
    assert by_hash.output == first.output
    with ledger.jobs.closing(record, ProfileResult(hashes)):
        pass
    assert "done before" in run(*command).output
    for words, message in (
        (["main", "--scenario", "inet5"], "c2558 has no scenario 'inet5'; found inet4-forward"),
        (["nothing"], "nothing"),
        (["main", "main~1", "main~2"], "expected one or two revisions"),
    ):
        result = run("profile", "--testbed", "c2558", *words, "--folder", own_service)
        assert result.exit_code != 0
        assert message in result.output
    assert ledger.jobs.all_open() == []


@pytest.mark.parametrize("command", ["status", "stop", "start", "backup"])
def test_a_folder_without_a_service_is_refused(tmp_path: Path, command: str) -> None:
    """The message has the path of the missing settings."""
    file = [tmp_path / "file.tar.gz"] if command == "backup" else []
    result = run(command, *file, tmp_path)

    assert result.exit_code == 1
    assert result.output.startswith(
        f"Error: there is no {tmp_path}/netbisect.toml; expected the folder of a service (FOLDER or"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A service that is not running."""
    assert run("init", tmp_path).exit_code == 0
    return tmp_path


def ledger_of(folder: Path) -> Ledger:
    return open_service_ledger(load_settings(folder / "netbisect.toml"))


def follow(folder: Path) -> tuple[int, str]:
    done = run("follow", "--until-idle", folder)
    return done.exit_code, done.output


def test_follow_does_not_wait_for_a_mail_that_cannot_be_sent(folder: Path) -> None:
    """Without a mail server, a mail waits for days."""
    assert run("stop", folder).output == "The master did not run.\n"
    mails = ledger_of(folder).mails
    mail = mails.post("one", Mail("a drop", "text"), ["ann@lab.invalid"])
    mails.begin(mail.id, 0.0)
    mails.failed(mail.id, "Connection refused", 1e12)

    assert follow(folder) == (
        0,
        "1 mail not sent yet (Connection refused); netbisect mails lists them\n",
    )
    lines = run("follow", "--from-start", "--until-idle", folder).output.splitlines()
    texts = [line.split("mail", 1)[1].strip() for line in lines[:-1]]
    assert texts == ["waiting: a drop", "waiting: a drop (Connection refused)"]


def test_follow_fails_with_open_work_and_no_master(folder: Path) -> None:
    failed = (1, f"Error: the master is not running: netbisect start {folder}\n")
    ledger = ledger_of(folder)
    mail = ledger.mails.post("one", Mail("s", "text"), ["ann@lab.invalid"])
    assert follow(folder) == failed
    ledger.mails.sent(mail.id)
    ledger.jobs.add(NightlyJob("main", "x", "b" * 40, ("fwd4",), 3), key="night")
    assert follow(folder) == failed
