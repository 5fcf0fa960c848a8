"""`netbisect alerts`: lists, changes and refusals."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from alert_ledger import FORWARDING, PF, STILL, announce, suspect
from click.testing import Result
from programs import netbisect

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import Effect
from netbisect.steps.service.control import SETTINGS
from netbisect.steps.service.settings import load_settings
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.db.records import AlertSeries
from netbisect.store.ledger import Ledger, open_ledger

CONFIRMED = "confirmed by interleaved boots"
DROP = Effect(FORWARDING, math.log(0.9), math.log(0.88), math.log(0.92), 1e-6, 5, 6)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with an open, an accepted and a closed alert, and a candidate."""
    path = tmp_path_factory.mktemp("alerts") / "netbisect.sqlite"
    ledger = open_ledger(f"sqlite:///{path}")
    for testbed in ("c2558", "apu2", "e5-2650"):
        announce(ledger, "a" * 40, "b" * 40, DROP, STILL, testbed=testbed, what=CONFIRMED)
    found = {"state": AlertState.CULPRIT_FOUND, "culprit": "c" * 40}
    ledger.alerts.change(1, who="netbisect", what="the search ended", **found)
    ledger.alerts.change(2, who="olga", what="as agreed", state=AlertState.ACKNOWLEDGED)
    ledger.alerts.change(3, who="olga", what="back", state=AlertState.FIXED, recovery="d" * 40)
    suspect(ledger)
    with ledger.writing() as writing:
        place = {"scenario": PF, "branch": "main", "good": "a" * 40, "bad": "b" * 40}
        series = AlertSeries(alert=1, testbed="apu2", **place, effect=None, at=writing.now)
        writing.session.add(series)
    ledger.engine.dispose()
    return path


@pytest.fixture
def address(prepared: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(prepared, tmp_path)}"


@pytest.fixture
def ledger(address: str) -> Iterator[Ledger]:
    ledger = open_ledger(address)
    yield ledger
    ledger.engine.dispose()


def run(address: str, *arguments: str) -> Result:
    return netbisect("alerts", "--database", address, *arguments)


def refused(address: str, *arguments: str) -> str:
    """The error message of a refused command, which changes nothing."""
    before = open_ledger(address).events.last()
    result = run(address, *arguments)

    assert result.exit_code in {1, 2}
    assert "Traceback" not in result.output
    assert open_ledger(address).events.last() == before
    return result.output.splitlines()[-1].removeprefix("Error: ")


def test_the_list_shows_open_alerts_or_all(address: str) -> None:
    head, *rows = run(address).output.splitlines()

    assert head.split()[:4] == ["alert", "state", "kind", "since"]
    [row] = rows
    assert row.startswith("1      culprit-found  drop")
    assert "inet4-forwarding on c2558, main and 1 more series" in row
    assert "-10.0 % (-12.0 to -8.0)" in row
    assert row.endswith("c" * 12)

    rows = run(address, "--all").output.splitlines()[1:]

    states = ["culprit-found", "acknowledged", "fixed", "candidate"]
    assert [row.split()[1] for row in rows] == states
    assert "not retested yet" in rows[3]
    assert rows[2].endswith(f"{'a' * 12}..{'b' * 12}")


def test_alerts_are_filtered_by_state(address: str) -> None:
    result = run(address, "--state", "fixed", "--state", "acknowledged", "--json")

    assert [alert["id"] for alert in json.loads(result.stdout)] == [2, 3]
    assert run(address, "--state", "muted").output == "No such alert.\n"
    assert "'quiet' is not one of 'candidate', 'confirming'" in refused(address, "--state", "quiet")


def test_show_prints_announced_numbers_and_history(address: str) -> None:
    shown = run(address, "show", "1").output

    assert shown.startswith("Alert 1: a drop, confirmed, commit found\n")
    assert "c" * 40 in shown
    series = shown.split("Announced numbers:\n")[1].split("\n\n")[0].splitlines()[1:]
    assert [line.split("  ")[1] for line in series] == [
        "inet4-forwarding on c2558, main",
        "inet4-pf-stateful on c2558, main",
    ]
    assert "-10.0 % (-12.0 to -8.0)" in series[0]
    assert "5 + 6 boots" in series[0]
    assert "Announced numbers:\n  None.\n" in run(address, "show", "4").output
    history = shown.split("History:\n")[1].splitlines()
    assert "netbisect  open           confirmed by interleaved boots" in history[0]
    assert "UTC  netbisect  culprit-found  the search ended" in history[1]

    data = json.loads(run(address, "show", "2", "--json").stdout)

    assert (data["number"], data["state"], data["kind"]) == (2, "acknowledged", "drop")
    assert data["series"][0]["difference"]["ln_ratio"] == pytest.approx(DROP.ln_ratio)
    assert [(entry["who"], entry["what"], entry["state"]) for entry in data["history"]] == [
        ("netbisect", CONFIRMED, "open"),
        ("olga", "as agreed", "acknowledged"),
    ]


@pytest.mark.parametrize(
    ("verb", "number", "state", "message"),
    [
        ("ack", 1, "acknowledged", "is acknowledged; the new level"),
        ("invalid", 1, "invalid", "is invalid; no such change"),
        ("infra", 2, "infra", "is caused by the lab"),
        ("fixed", 1, "fixed", "is reported as fixed; it reopens if the change is measured again"),
        ("withdraw", 4, "withdrawn", "is withdrawn"),
        ("withdraw", 3, "fixed", "stays fixed; the reason is in its history"),
        ("reopen", 3, "reopened", "is reopened"),
    ],
)
def test_subcommands_change_the_state(
    address: str, ledger: Ledger, verb: str, number: int, state: str, message: str
) -> None:
    result = run(address, verb, str(number), "--why", "because", "--who", "olga")

    assert result.exit_code == 0, result.output
    assert f"Alert {number} {message}" in result.output
    last = ledger.alerts.changes(number)[-1]
    assert (last.who, last.what, last.state) == ("olga", "because", AlertState(state))
    assert ledger.alerts.get(number).state.value == state
    assert ("not confirmed" in run(address, "show", str(number)).output) == (number == 4)


def test_mute_ends_at_a_date(address: str, ledger: Ledger) -> None:
    result = run(address, "mute", "1", "--until", "2199-01-02", "--why", "in review")

    assert "Alert 1 is muted until 2199-01-02.\n" in result.output
    assert ledger.alerts.get(1).muted_until == 7226668800.0
    assert ledger.alerts.changes(1)[-1].what == "in review (until 2199-01-02)"


def test_the_author_is_the_login_name_or_the_user_id(
    address: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users of containers may have no login name."""
    monkeypatch.setenv("LOGNAME", "hilde")
    run(address, "ack", "1", "--why", "because")
    assert ledger.alerts.changes(1)[-1].who == "hilde"

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    run(address, "reopen", "1", "--why", "because")
    assert ledger.alerts.changes(1)[-1].who == "54321"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "9"], "there is no alert 9; `netbisect alerts --all` lists all"),
        (["show", str(10**20)], f"there is no alert {10**20}; `netbisect alerts --all` lists all"),
        (["ack", "9", "--why", "x"], "there is no alert 9; `netbisect alerts --all` lists"),
        (["ack", "seven", "--why", "x"], "'seven' is not a valid integer"),
        (["ack", "1"], "Missing option '--why'"),
        (["ack", "1", "--why", " "], "a change of alert 1 needs a reason, and none was given"),
        (["ack", "1", "--why", 501 * "x"], "a reason of 501 characters; expected at most 500"),
        (["ack", "3", "--why", "x"], "alert 3 is fixed; only an alert that is open, bisecting"),
        (["reopen", "1", "--why", "x"], "alert 1 is culprit-found; only an alert that is"),
        (["mute", "1", "--why", "x"], "Missing option '--until'"),
        (["mute", "1", "--why", " ", "--until", "2199-01-02"], "needs a reason, and none"),
        (["mute", "1", "--why", "x", "--until", "soon"], "'soon': not a date such as 2026-12-31"),
        (["mute", "1", "--why", "x", "--until", "2026-02-30"], "'2026-02-30': not a date"),
        (["mute", "1", "--why", "x", "--until", "2020-01-01"], "2020-01-01 is not after today, 2"),
        (["--all", "show", "1"], "--all here applies to the list, not to 'show'"),
        (["forget", "1"], "No such command 'forget'"),
        (["--folder", "."], "--folder and --database are mutually exclusive"),
        (["show", "1", "--folder", "."], "--folder and --database are mutually exclusive"),
    ],
)
def test_invalid_arguments_are_refused(address: str, arguments: list[str], message: str) -> None:
    assert message in refused(address, *arguments)


def test_mails_about_changes_have_the_domain_of_the_sender(tmp_path: Path) -> None:
    folder = str(tmp_path / "service")
    netbisect("init", folder)
    settings = load_settings(Path(folder) / SETTINGS)
    ledger = open_service_ledger(settings)
    alert = announce(ledger)
    ledger.mails.post("first", Mail("a drop", ""), ["a@b"], alert=alert.id)
    change = ["alerts", "fixed", str(alert.id), "--why", "reverted", "--folder", folder]
    result = netbisect(*change)
    assert result.exit_code == 0, result.output
    mail = ledger.mails.waiting()[-1]
    assert mail.subject == "Re: a drop"
    assert mail.message_id.endswith(f"@{settings.mail.sender.rpartition('@')[2]}>")
    ledger.engine.dispose()
