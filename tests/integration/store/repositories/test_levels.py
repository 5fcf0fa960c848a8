"""Levels of a series."""

from __future__ import annotations

import math

import pytest
from evidence_lab import FORWARDING, PF, Lab, comparison, learn


@pytest.mark.both_databases
def test_a_series_has_a_level_for_every_image_in_the_order_of_the_branch(lab: Lab) -> None:
    learn(lab, "r9", "r1", "r5")
    first, second = lab.build("r1", "one"), lab.build("r1", "two")
    for kernel in (first, second, first):
        lab.boot(None, "r1", {FORWARDING: 1e5, PF: 9e5}, kernel=kernel.key)
    record = lab.add_job(comparison())
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
