"""The evidence of a job: boots, conditions and kernels, of all its testbeds."""

from __future__ import annotations

import dataclasses
import math

import pytest
from evidence_lab import (
    FORWARDING,
    OTHER,
    PF,
    Lab,
    bisection,
    boots_of,
    comparison,
    group,
    learn,
    night,
)

from netbisect.bisect.model.entities import Boot, Kernel, Reaction, Sample, Stage

# ------------------------------------------------------------------------------------- readings


def test_a_reading_is_the_logarithm_of_a_boots_rates_by_scenario(lab: Lab) -> None:
    record = lab.ask(comparison())
    kernel = lab.build("r1")
    boot = lab.boot(record, "r1", {FORWARDING: 600_000.0, PF: 400_000.0}, kernel=kernel.key)

    [reading] = lab.evidence(record).observations

    assert (reading.boot, reading.identity) == (boot.id, "identity of r1")
    assert reading.ln_pps == {FORWARDING: math.log(600_000.0), PF: math.log(400_000.0)}


def test_a_night_sees_only_the_boots_that_were_made_for_it(lab: Lab) -> None:
    earlier, tonight = lab.ask(night()), lab.ask(night())
    lab.boot(earlier, "r1", {FORWARDING: 1e5})
    lab.boot(None, "r1", {FORWARDING: 1e5})
    lab.boot(tonight, "r1", {FORWARDING: 1e5})
    lab.boot(tonight, "r1", {FORWARDING: 1e5})

    assert boots_of(lab.evidence(tonight)) == [("r1", True), ("r1", True)]
    assert boots_of(lab.evidence(earlier)) == [("r1", True)]


@pytest.mark.both_databases
def test_a_comparison_sees_all_boots_of_both_sides_and_knows_its_own(lab: Lab) -> None:
    first = lab.ask(night())
    lab.boot(first, "r1", {FORWARDING: 1e5})
    lab.boot(first, "r5", {FORWARDING: 1e5})
    lab.boot(first, "r9", {FORWARDING: 1e5}, testbed="apu2")
    record = lab.ask(comparison(), parent=first.id)
    lab.boot(record, "r9", {FORWARDING: 1e5})
    lab.boot(record, "r1", {FORWARDING: 1e5})

    assert boots_of(lab.evidence(record)) == [("r1", False), ("r9", True), ("r1", True)]


def test_a_bisection_inherits_what_was_measured_before_it(lab: Lab) -> None:
    before = lab.ask(comparison())
    lab.boot(before, "r1", {FORWARDING: 1e5})
    lab.boot(before, "r9", {FORWARDING: 1e5})
    record = lab.ask(bisection(), parent=before.id)
    lab.boot(record, "r5", {FORWARDING: 1e5})
    lab.boot(record, "r0", {FORWARDING: 1e5})

    assert boots_of(lab.evidence(record)) == [("r1", False), ("r9", False), ("r5", True)]


def test_what_is_no_sample_is_no_evidence_and_is_kept(lab: Lab) -> None:
    record = lab.ask(comparison())
    lab.boot(record, "r1", {FORWARDING: 1e5}, problems=["the generator offered too little"])
    lab.boot(record, "r1", {FORWARDING: 0.0})

    assert lab.evidence(record).observations == ()
    facts = lab.ledger.facts.of_job(record.id)
    assert sum(isinstance(fact, Sample) for fact in facts) == 2


def test_one_boot_is_one_sample_however_often_it_was_run(lab: Lab) -> None:
    record = lab.ask(comparison())
    boot = lab.boot(record, "r1", {FORWARDING: 1e5}, problems=["pkt-gen crashed"])
    lab.run(boot, None, FORWARDING, 2e5)
    lab.run(boot, None, FORWARDING, 3e5)

    [reading] = lab.evidence(record).observations
    assert reading.ln_pps == {FORWARDING: pytest.approx((math.log(2e5) + math.log(3e5)) / 2)}
    assert reading.runs == 2


def test_the_runs_that_count_are_those_of_the_scenario_that_decides(lab: Lab) -> None:
    record = lab.ask(comparison())
    boot = lab.boot(record, "r1", {FORWARDING: 1e5, PF: 5e4})
    lab.run(boot, None, FORWARDING, 1e5)

    [reading] = lab.evidence(record).observations
    assert (reading.runs, set(reading.ln_pps)) == (2, {FORWARDING, PF})


def test_scenarios_that_were_not_asked_for_are_left_out(lab: Lab) -> None:
    record = lab.ask(comparison())
    lab.boot(record, "r1", {"inet6-forwarding": 1e5})
    lab.boot(record, "r1", {FORWARDING: 1e5, "inet6-forwarding": 1e5})

    assert [list(reading.ln_pps) for reading in lab.evidence(record).observations] == [[FORWARDING]]


# ----------------------------------------------------------------------------------- conditions


@pytest.mark.both_databases
def test_unlike_conditions_never_meet(lab: Lab) -> None:
    record = lab.ask(comparison())
    lab.boot(record, "r1", {FORWARDING: 1e5, PF: 1e5})
    lab.conditions = "a new generator"
    lab.boot(record, "r9", {FORWARDING: 2e5})

    good, bad = lab.evidence(record).observations

    assert (good.revision, list(good.ln_pps)) == ("r1", [PF])
    assert (bad.revision, list(bad.ln_pps)) == ("r9", [FORWARDING])
    kept = [fact for fact in lab.ledger.facts.of_job(record.id) if isinstance(fact, Sample)]
    assert len(kept) == 3


def test_samples_count_again_when_their_conditions_come_back(lab: Lab) -> None:
    record = lab.ask(comparison())
    lab.boot(record, "r1", {FORWARDING: 1e5})
    lab.conditions = "a new generator"
    lab.boot(record, "r9", {FORWARDING: 2e5})
    lab.conditions = "old"
    lab.boot(record, "r9", {FORWARDING: 1e5})

    assert [reading.ln_pps[FORWARDING] for reading in lab.evidence(record).observations] == [
        math.log(1e5),
        math.log(1e5),
    ]


def test_a_run_that_is_no_sample_does_not_change_the_conditions(lab: Lab) -> None:
    record = lab.ask(comparison())
    lab.boot(record, "r1", {FORWARDING: 1e5})
    lab.conditions = "a cable pulled out"
    lab.boot(record, "r9", {FORWARDING: 0.0}, problems=["nothing arrived"])

    assert boots_of(lab.evidence(record)) == [("r1", True)]


def test_the_conditions_of_another_testbed_are_its_own(lab: Lab) -> None:
    record = lab.ask(comparison())
    lab.boot(record, "r1", {FORWARDING: 1e5})
    lab.conditions = "another make"
    lab.boot(None, "r1", {FORWARDING: 1e5}, testbed="apu2")

    assert boots_of(lab.evidence(record)) == [("r1", True)]


# -------------------------------------------------------------------------------------- kernels


@pytest.mark.both_databases
def test_of_two_builds_the_newest_one_is_used_and_old_boots_keep_their_own(lab: Lab) -> None:
    record = lab.ask(comparison())
    old = lab.build("r1", "first image")
    lab.boot(record, "r1", {FORWARDING: 1e5}, kernel=old.key)
    new = lab.build("r1", "second image")
    lab.boot(record, "r1", {FORWARDING: 1e5}, kernel=new.key)
    lab.ledger.facts.record(old)

    evidence = lab.evidence(record)

    assert evidence.kernels == {"r1": new}
    assert [reading.identity for reading in evidence.observations] == [
        "first image",
        "second image",
    ]


def test_only_kernels_of_the_testbeds_config_and_arch_are_of_use(lab: Lab) -> None:
    record = lab.ask(bisection())
    lab.build("r1", config="GENERIC-NODEBUG")
    kernel = lab.build("r5")
    lab.build("r7")

    assert lab.evidence(record).kernels == {"r5": kernel}
    assert lab.evidence(record, arch="arm64").kernels == {}


def test_the_image_of_a_kernel_built_elsewhere_is_known_by_its_key(lab: Lab) -> None:
    record = lab.ask(comparison())
    lab.boot(record, "r1", {FORWARDING: 1e5}, kernel="key from elsewhere")

    assert lab.evidence(record).observations[0].identity == "key from elsewhere"


def test_a_kernel_built_twice_alike_counts_its_boots_once(lab: Lab) -> None:
    record = lab.ask(comparison())
    kernel = lab.build("r1")
    lab.ledger.facts.record(dataclasses.replace(kernel, at=kernel.at + 1000))
    lab.boot(record, "r1", {FORWARDING: 1e5}, kernel=kernel.key)

    assert len(lab.evidence(record).observations) == 1
    assert lab.evidence(record).kernels["r1"].at == kernel.at + 1000


def test_the_order_in_which_facts_arrive_does_not_matter(lab: Lab) -> None:
    record = lab.ask(comparison())
    visits = [
        (
            Boot(f"boot {i}", "c2558", "key", "r1", float(i), 180.0),
            Sample(
                f"s{i}", f"boot {i}", "c2558", FORWARDING, 1e5 + i, 0.0, (), (), (), "", i, 30.0
            ),
        )
        for i in range(3)
    ]
    decision = lab.decide(record, "r1")

    for boot, sample in (visits[2], visits[0], visits[1]):
        lab.ledger.facts.record(boot, decision)
        lab.ledger.facts.record(sample, decision)

    evidence = lab.evidence(record)
    assert [reading.boot for reading in evidence.of("r1")] == ["boot 0", "boot 1", "boot 2"]
    assert [math.exp(reading.ln_pps[FORWARDING]) for reading in evidence.of("r1")] == (
        pytest.approx([1e5, 1e5 + 1, 1e5 + 2])
    )


# -------------------------------------------------------------------------- further layouts


@pytest.mark.both_databases
def test_a_search_sees_the_layouts_of_its_revisions_and_nobody_else_does(lab: Lab) -> None:
    """They are images of the revision to the search, and of no revision to all others."""
    searching = lab.ask(dataclasses.replace(bisection(), layouts=3))
    plain, comparing = lab.ask(bisection()), lab.ask(comparison("r1", "r5"))
    ordinary, relinked = lab.build("r5", "five"), lab.build("r5#2", "five again")
    lab.boot(searching, "r5", {FORWARDING: 100.0}, kernel=ordinary.key)
    lab.boot(searching, "r5#2", {FORWARDING: 90.0}, kernel=relinked.key)
    lab.build("r7#1")
    seen = lab.evidence(searching)

    assert [(r.revision, r.layout, r.identity) for r in seen.observations] == [
        ("r5", 0, "five"),
        ("r5", 2, "five again"),
    ]
    assert {name: (one.revision, one.layout) for name, one in seen.kernels.items()} == {
        "r5": ("r5", 0),
        "r5#2": ("r5", 2),
    }
    for record in (plain, comparing):
        assert [r.layout for r in lab.evidence(record).observations] == [0]
        assert set(lab.evidence(record).kernels) == {"r5"}
    assert lab.ledger.commits.booted() == ["r5"]
    learn(lab, "r1", "r5", "r9")
    levels = lab.ledger.series.levels("c2558", FORWARDING, "main")
    assert [level.identity for level in levels] == ["five"]
    assert not any("r5#2" in line for line in lab.ledger.samples.excluded())
    assert lab.ledger.jobs.needed_kernels() == {ordinary.key, relinked.key}
    assert lab.ledger.commits.label("r5#2") == f"{lab.ledger.commits.label('r5')}, layout 2"


def test_a_layout_that_does_not_build_says_nothing_of_its_revision(lab: Lab) -> None:
    """It is skipped under its own name, by the search that ordered it."""
    searching = lab.ask(dataclasses.replace(bisection(), layouts=3))
    lab.failure(searching, "r5#1", Stage.BUILD)

    assert lab.skipped(searching) == {"r5#1": "build trouble"}
    assert lab.skipped(lab.ask(bisection())) == {}


def test_a_layout_is_built_with_the_fixes_of_its_revision(lab: Lab) -> None:
    """A stretch that needs an overlay needs it in every layout."""
    searching = lab.ask(dataclasses.replace(bisection(), layouts=3))
    lab.build("r5#1", config="GENERIC+fix")
    lab.build("r9#1", config="GENERIC+fix")
    seen = lab.ledger.evidence.gather(
        searching, config="GENERIC", arch="amd64", variants={"r5": "GENERIC+fix"}
    )

    assert set(seen.kernels) == {"r5#1"}


# --------------------------------------------------------------------- builds with an overlay


def test_a_revision_that_is_built_with_a_fix_has_those_kernels_and_no_others(lab: Lab) -> None:
    """What is outside the stretch is as it was."""
    record = lab.ask(bisection())
    lab.build("r5", "plain")
    mended = lab.build("r5", "mended", config="GENERIC+mend")
    other = lab.build("r9", "other")

    def kernels(variants: dict[str, str]) -> dict[str, Kernel]:
        evidence = lab.ledger.evidence.gather(
            record, config="GENERIC", arch="amd64", variants=variants
        )
        return evidence.kernels

    assert {name: kernel.identity for name, kernel in kernels({}).items()} == {
        "r5": "plain",
        "r9": "other",
    }
    assert kernels({"r5": "GENERIC+mend", "elsewhere": "x"}) == {"r5": mended, "r9": other}


@pytest.mark.parametrize("stage", [Stage.BUILD, Stage.BOOT])
def test_what_failed_without_a_fix_is_not_held_against_a_build_with_it(
    lab: Lab, stage: Stage
) -> None:
    """Until it fails with the fix too."""
    record = lab.ask(bisection())
    lab.failure(record, "r5", stage)
    lab.failure(record, "r9", stage)
    variants = {"r5": "GENERIC+mend"}

    def skipped() -> set[str]:
        evidence = lab.ledger.evidence.gather(
            record, config="GENERIC", arch="amd64", variants=variants
        )
        return set(evidence.skipped)

    assert skipped() == {"r9"}
    lab.failure(record, "r5", stage, config="GENERIC+mend")
    assert skipped() == {"r5", "r9"}


# ------------------------------------------------------------------- several testbeds of one make


def test_a_search_of_several_testbeds_sees_the_boots_of_all_and_which_is_whose(lab: Lab) -> None:
    """Those of testbeds that do not belong to it stay out of it."""
    record = lab.ask(group())
    for testbed in (OTHER, "c2558", "e5-2650"):
        lab.boot(record, "r5", {FORWARDING: 600_000.0}, testbed=testbed)

    assert [one.testbed for one in lab.evidence(record).observations] == [OTHER, "c2558"]
    alone = lab.ask(bisection())
    assert [one.testbed for one in lab.evidence(alone).observations] == ["c2558"]


@pytest.mark.both_databases
def test_conditions_are_those_of_each_testbed(lab: Lab) -> None:
    """New ones of one do not put the boots of another aside."""
    record = lab.ask(group())
    lab.boot(record, "r1", {FORWARDING: 600_000.0})
    lab.boot(record, "r1", {FORWARDING: 620_000.0}, testbed=OTHER)
    lab.conditions = "new"
    lab.boot(record, "r5", {FORWARDING: 630_000.0}, testbed=OTHER)

    found = [(one.testbed, one.revision) for one in lab.evidence(record).observations]
    assert found == [("c2558", "r1"), (OTHER, "r5")]


@pytest.mark.parametrize("first", [True, False])
def test_what_one_testbed_could_not_boot_and_another_one_could_is_not_skipped(
    lab: Lab, *, first: bool
) -> None:
    """Whichever came first; but what the testbed of the question says of itself stands."""
    record = lab.ask(group())
    places = [("r1", "c2558", OTHER), ("r5", OTHER, "c2558")]
    for revision, works, fails in places:
        if first:
            lab.boot(record, revision, {FORWARDING: 600_000.0}, testbed=works)
        lab.failure(record, revision, Stage.BOOT, testbed=fails)
        if not first:
            lab.boot(record, revision, {FORWARDING: 600_000.0}, testbed=works)
    lab.failure(record, "r9", Stage.BOOT, testbed=OTHER)

    assert set(lab.skipped(record)) == {"r5", "r9"}


def test_tries_that_came_to_nothing_are_counted_for_each_testbed(lab: Lab) -> None:
    """Two here and one there are not three."""
    record = lab.ask(group())
    for testbed in ("c2558", "c2558", OTHER):
        lab.failure(record, "r5", Stage.BENCH, Reaction.RETRY, scenario=FORWARDING, testbed=testbed)
    assert lab.skipped(record) == {}

    lab.failure(record, "r5", Stage.BENCH, Reaction.RETRY, scenario=FORWARDING)
    assert set(lab.skipped(record)) == {"r5"}
