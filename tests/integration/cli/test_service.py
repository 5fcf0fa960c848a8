"""`netbisect check`, `start`, `night` and `profile`."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import netbisect as run

from netbisect.bisect.model.jobs import NightlyJob, ProfileJob
from netbisect.bisect.model.results import ProfileResult, Unfinished
from netbisect.demo.service import DemoService
from netbisect.steps.service import control
from netbisect.steps.service.database_thread import open_ledger
from netbisect.steps.service.settings import load, load_settings
from netbisect.store.db.records import JobRecord
from netbisect.store.ledger import Ledger


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service that never runs."""
    service = DemoService(tmp_path_factory.mktemp("cli") / "service")
    service.build()
    return service.place


@pytest.fixture
def folder(written: Path) -> Iterator[Path]:
    """That folder, for tests that change its settings."""
    path = written / control.SETTINGS
    text = path.read_text()
    yield written
    path.write_text(text)


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


def test_check_passes(folder: Path) -> None:
    result = run("check", folder)

    assert result.exit_code == 0, result.output
    assert "main is at" in result.output
    assert "FAIL" not in result.output
    assert re.search(
        r"^warn mail server +127\.0\.0\.1:\d+ does not answer: Connection refused; mails wait",
        result.output,
        re.MULTILINE,
    )


def test_check_connects_to_the_mail_server(folder: Path) -> None:
    port = load_settings(folder / control.SETTINGS).mail.port
    for greeting, label in (
        (b"220 mail.lab.invalid ready\r\n", "ok"),
        (b"HTTP/1.1 400\r\n", "warn"),
    ):
        with socket.create_server(("127.0.0.1", port)) as listener:
            thread = threading.Thread(target=greet, args=(listener, greeting))
            thread.start()
            result = run("check", folder)
            thread.join()
        assert re.search(rf"^{label} +mail server", result.output, re.MULTILINE)
        assert result.exit_code == 0


def greet(listener: socket.socket, greeting: bytes) -> None:
    client, _ = listener.accept()
    with client:
        client.sendall(greeting)


def test_check_json(folder: Path) -> None:
    change(folder, 'branches = ["main"]', 'branches = ["main", "stable/15"]')
    result = run("check", "--json", folder)
    found = {one["what"]: one for one in json.loads(result.stdout)}

    assert result.exit_code == 1
    assert not found["branch"]["good"]
    assert found["database"]["good"]


def test_supervised_start_works_without_the_git_server(folder: Path, tmp_path: Path) -> None:
    """A restarted service uses its clone while the server is down."""
    lab = folder / "lab" / "lab.toml"
    text = lab.read_text()
    address = load(folder / control.SETTINGS)[1].source.repository
    assert run("check", folder).exit_code == 0
    lab.write_text(text.replace(address, f"{address}.away"))
    try:
        assert "cannot be read" in refused(folder)
        assert run("check", folder).exit_code == 1
        assert control.prepare_start(folder, supervised=True).branches == ("main",)
        shutil.rmtree(load_settings(folder / control.SETTINGS).mirror)
        with pytest.raises(control.ServiceError, match="cannot be read"):
            control.prepare_start(folder, supervised=True)
    finally:
        lab.write_text(text)


def test_port_in_use_is_refused(folder: Path) -> None:
    settings, _ = load(folder / control.SETTINGS)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", settings.web.port))
        taken.listen()
        message = refused(folder)

    assert (
        message == f"web.port: 127.0.0.1:{settings.web.port} is unavailable: Address already in use"
    )


def test_invalid_database_address_is_refused(folder: Path) -> None:
    change(folder, "poll = 60", 'poll = 60\ndatabase = "netbisect.sqlite"')
    assert "is no database url" in run("check", folder).output


def test_nightly_job_is_queued_once(written: Path) -> None:
    first = run("night", "--testbed", "c2558", written)
    second = run("night", written)
    settings, _ = load(written / control.SETTINGS)
    record = open_ledger(settings.database).jobs.all_open()

    assert "is to be measured" in first.output
    assert second.exit_code == 0
    assert sorted(one.job.testbed for one in record) == ["c2558", "e5-2650"]
    assert all(isinstance(one.job, NightlyJob) for one in record)
    status = json.loads(run("status", "--json", written).stdout)
    assert [one["kind"] for one in status["jobs"]] == ["Night", "Night"]
    assert "Night on c2558, main" in run("status", written).output


def profile_jobs(ledger: Ledger) -> list[JobRecord]:
    return [one for one in ledger.jobs.all_open() if isinstance(one.job, ProfileJob)]


def test_profile_is_queued_once(written: Path) -> None:
    command = ("profile", "--testbed", "c2558", "main~3", "main", "--folder", written)
    first = run(*command)
    settings, _ = load(written / control.SETTINGS)
    ledger = open_ledger(settings.database)
    [record] = profile_jobs(ledger)

    assert f"netbisect/profile-{record.id}.html" in first.output
    assert isinstance(record.job, ProfileJob)
    assert record.job.scenarios == ("inet4-forwarding",)
    assert len(record.job.revisions) == 2
    hashes = record.job.revisions
    assert run("profile", "--testbed", "c2558", *hashes, "--folder", written).output == first.output
    with ledger.jobs.closing(record, ProfileResult(hashes)):
        pass
    assert "done before" in run(*command).output
    assert profile_jobs(ledger) == []


def test_failed_profile_is_queued_again(written: Path) -> None:
    command = ("profile", "--testbed", "c2558", "main", "--folder", written)
    run(*command)
    settings, _ = load(written / control.SETTINGS)
    ledger = open_ledger(settings.database)
    [first] = profile_jobs(ledger)
    with ledger.jobs.closing(first, Unfinished("no event")):
        pass
    run(*command)
    [second] = profile_jobs(ledger)

    assert second.id != first.id
    assert second.job == first.job


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["main", "--scenario", "inet5"],
            "c2558 has no scenario 'inet5'; there is inet4-forwarding",
        ),
        (["nothing"], "nothing"),
        (["main", "main~1", "main~2"], "expected one or two revisions"),
    ],
)
def test_invalid_profile_is_refused(written: Path, words: list[str], message: str) -> None:
    result = run("profile", "--testbed", "c2558", *words, "--folder", written)

    assert result.exit_code != 0
    assert message in result.output


def test_stop_without_a_master(written: Path) -> None:
    assert run("stop", written).output == "The master did not run.\n"
