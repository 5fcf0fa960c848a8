"""`netbisect testbeds`: quarantine and release."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from programs import netbisect

from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.store.ledger import open_ledger

run = partial(netbisect, "testbeds")


@pytest.fixture
def folder(own_service: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOGNAME", "ana")
    return own_service


def listed(folder: Path) -> dict[str, dict[str, Any]]:
    result = run("--json", "--folder", folder)
    assert result.exit_code == 0, result.output
    return {row["testbed"]: row for row in json.loads(result.output)}


def test_a_quarantine_is_listed_and_ends_with_a_release(folder: Path) -> None:
    """The master checks the testbed before it is in use again."""
    name = next(iter(listed(folder)))
    assert listed(folder)[name]["state"] == "in use"
    done = run("quarantine", name, "--why", "new fans", "--folder", folder)
    assert (done.exit_code, done.output) == (0, f"{name} is in quarantine.\n")

    row = listed(folder)[name]
    assert (row["state"], row["why"], row["by"]) == ("in quarantine", "new fans", "ana")
    table = run("--folder", folder).output
    assert re.search(rf"^{name} +in quarantine .* new fans", table, re.MULTILINE)
    status = netbisect("status", folder).output
    assert f"  {name}, since " in status
    again = run("quarantine", name, "--why", "another", "--folder", folder)
    assert again.exit_code == 1
    assert "is in quarantine already, since " in again.output
    assert listed(folder)[name]["why"] == "new fans"

    run("release", name, "--note", "all are in", "--folder", folder)
    assert listed(folder)[name]["state"] == "being checked"
    settings, _ = load(folder / control.SETTINGS)
    ledger = open_ledger(settings.database)
    ledger.quarantines.release(ledger.quarantines.current()[name].id)

    assert listed(folder)[name]["state"] == "in use"
    (row,) = json.loads(run("history", name, "--json", "--folder", folder).output)
    assert (row["released_by"], row["note"]) == ("ana", "all are in")
    assert "new fans" in run("history", name, "--folder", folder).output
    ledger.quarantines.start("scrapped", why="dead")
    assert run("release", "scrapped", "--folder", folder).output.endswith("without a check.\n")
    assert ledger.quarantines.current() == {}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("quarantine", "unknown", "--why", "x"), "no testbed 'unknown'"),
        (("release", "unknown"), "no testbed 'unknown'"),
        (("quarantine", "NAME", "--why", " "), "--why is empty; expected a sentence"),
        (("release", "NAME"), "is not in quarantine"),
        (("--json", "history", "NAME"), "--json here applies to the list"),
    ],
)
def test_invalid_commands_are_rejected_with_one_sentence(
    folder: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    name = next(iter(listed(folder)))
    words = [name if word == "NAME" else word for word in arguments]
    result = run(*words, "--folder", folder)

    assert result.exit_code in (1, 2)
    assert sentence in result.output
    assert "Traceback" not in result.output
    assert listed(folder)[name]["state"] == "in use"
