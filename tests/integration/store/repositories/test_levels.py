"""Levels of a series, and where its baseline begins."""

from __future__ import annotations

import math

import pytest
from evidence_lab import FORWARDING, PF, Lab, comparison, learn

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.results import Confirmed, Effect


@pytest.mark.both_databases
def test_a_series_has_a_level_for_every_image_in_the_order_of_the_branch(lab: Lab) -> None:
    learn(lab, "r9", "r1", "r5")
    first, second = lab.build("r1", "one"), lab.build("r1", "two")
    for kernel in (first, second, first):
        lab.boot(None, "r1", {FORWARDING: 1e5, PF: 9e5}, kernel=kernel.key)
    record = lab.ask(comparison())
    lab.boot(record, "r9", {FORWARDING: 3e5})
    lab.boot(record, "r5", {FORWARDING: 2e5})
    lab.boot(record, "r7", {FORWARDING: 2e5})
    lab.boot(record, "r5", {FORWARDING: 2e5}, problems=["none"])

    series = lab.ledger.series.levels("c2558", FORWARDING, "main")

    assert [(level.revision, level.identity) for level in series] == [
        ("r1", "one"),
        ("r1", "two"),
        ("r5", "key of r5"),
        ("r9", "key of r9"),
    ]
    assert [level.ln_pps for level in series] == [
        (math.log(1e5), math.log(1e5)),
        (math.log(1e5),),
        (math.log(2e5),),
        (math.log(3e5),),
    ]
    assert series[0].at < series[1].at
    assert lab.ledger.series.levels("apu2", FORWARDING, "main") == []
    assert lab.ledger.series.levels("c2558", FORWARDING, "stable/15") == []


@pytest.mark.both_databases
def test_a_level_is_saturated_when_the_generator_limited_most_of_its_boots(lab: Lab) -> None:
    """Two of three boots at 98 % and more of what was offered; one of two is not most."""
    learn(lab, "r1", "r5")
    lab.offered = 1e5
    for revision, rates in (("r1", (99e3, 80e3, 98e3)), ("r5", (99e3, 80e3))):
        for rate in rates:
            lab.boot(None, revision, {FORWARDING: rate})
    first, second = lab.ledger.series.levels("c2558", FORWARDING, "main")
    assert first.saturated
    assert not second.saturated


def test_a_series_begins_anew_with_new_conditions(lab: Lab) -> None:
    learn(lab, "r1", "r5")
    lab.boot(None, "r1", {FORWARDING: 1e5, PF: 1e5})
    lab.conditions = "a new generator"
    lab.boot(None, "r5", {FORWARDING: 1e5})

    assert [level.revision for level in lab.ledger.series.levels("c2558", FORWARDING, "main")] == [
        "r5"
    ]
    assert [level.revision for level in lab.ledger.series.levels("c2558", PF, "main")] == ["r1"]


def baseline(lab: Lab) -> list[str]:
    return [level.revision for level in lab.ledger.series.baseline("c2558", FORWARDING, "main")]


@pytest.mark.both_databases
def test_the_baseline_begins_with_the_last_confirmed_change(lab: Lab) -> None:
    learn(lab, "r1", "r2", "r3", "r4", "r5")
    for revision in ("r1", "r2", "r4", "r5"):
        lab.boot(None, revision, {FORWARDING: 1e5})
    assert baseline(lab) == ["r1", "r2", "r4", "r5"]

    record = lab.ask(comparison("r2", "r4"))
    effect = Effect(FORWARDING, -0.1, -0.12, -0.08, 1e-6, 5, 5)
    with lab.ledger.jobs.closing(record, Confirmed((effect,))) as closing:
        alert = closing.open_alert([effect], what="confirmed")
    assert baseline(lab) == ["r4", "r5"]

    def change(state: AlertState, culprit: str) -> None:
        lab.ledger.alerts.change(alert.id, who="me", what="why", state=state, culprit=culprit)

    change(AlertState.CULPRIT_FOUND, "r3")
    assert baseline(lab) == ["r4", "r5"]
    change(AlertState.CULPRIT_FOUND, "r5")
    assert baseline(lab) == ["r5"]
    change(AlertState.INVALID, "")
    assert baseline(lab) == ["r1", "r2", "r4", "r5"]
