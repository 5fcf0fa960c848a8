"""Evidence in reports about changes: rates, trials, failures and overlays."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from ledger_facts import NIGHT, intend

from netbisect.bisect.model.entities import Boot, Failure, Kernel, Noise, Reaction, Sample, Stage
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import BisectJob, Candidate
from netbisect.bisect.model.results import Culprit, Posterior, SeveralCulprits
from netbisect.reports.model.changes import KernelFailure, StepDocument
from netbisect.steps.queries import change_evidence
from netbisect.store.ledger import Ledger


def kernel(revision: str, identity: str, config: str = "GENERIC") -> Kernel:
    return Kernel(revision, config, "amd64", identity, f"key-{revision}", "v", 1, 0.0, 1.0)


def observation(boot: str, revision: str, identity: str, pps: float) -> Observation:
    return Observation(boot, revision, identity, {"forwarding": math.log(pps)})


def boot(revision: str) -> StepDocument:
    return StepDocument(
        1, "trial", revision, "c2558", "", "ok", "", 0.0, 1.0, 1, 1, "booted", 1e6, 1.0, None
    )


def test_a_culprit_without_boots_has_the_rates_of_an_identical_kernel() -> None:
    """A later commit changes a manual page only; revisions with own boots need no other kernel."""
    evidence = Evidence(
        observations=(
            observation("1", "parent", "fast", 950),
            observation("2", "page", "slow", 840),
            observation("3", "page", "slow", 850),
        ),
        kernels={
            "parent": kernel("parent", "fast"),
            "culprit": kernel("culprit", "slow"),
            "page": kernel("page", "slow"),
        },
    )
    pps = change_evidence.pps(evidence, ("forwarding",), {"parent", "culprit"})["forwarding"]

    assert [round(value) for value in pps["culprit"]] == [840, 850]
    assert [round(value) for value in pps["page"]] == [840, 850]
    assert [round(value) for value in pps["parent"]] == [950]
    steps = [boot("parent"), boot("page"), boot("page")]
    assert change_evidence.stand_ins(evidence, steps, {"parent", "culprit"}) == {"culprit": "page"}
    assert change_evidence.stand_ins(evidence, steps, {"parent", "page"}) == {}
    assert change_evidence.stand_ins(evidence, steps, {"not built"}) == {}


def test_prefetched_builds_are_separate_from_the_result_of_a_trial(ledger: Ledger) -> None:
    """A kernel that fails to build during a trial does not change the result of the trial."""
    decision = intend(ledger, ledger.jobs.add(NIGHT, key="night"), "middle")
    facts = [
        Boot("boot", "c2558", "key-middle", "middle", 11.0, 60.0),
        kernel("later", "fast", "GENERIC+fix-igb"),
        Sample("s", "boot", "c2558", "forwarding", 900.0, 1e3, (), (), (), "c", 12.0, 30.0),
        Sample("t", "boot", "c2558", "forwarding", 902.0, 1e3, (), (), (), "c", 12.5, 30.0),
        Failure("failure", "last", Stage.BUILD, Reaction.SKIP, "no rule", 13.0, 5.0),
    ]
    trial = change_evidence.step_of(decision, facts, "forwarding", "")
    later, last = change_evidence.built_ahead(decision, facts)

    assert (trial.result, trial.seconds, trial.stage) == ("booted", 120.0, "trial")
    assert trial.pps == pytest.approx(math.sqrt(900.0 * 902.0))
    assert (later.revision, later.result, later.stage) == (
        "later",
        "built v with fix-igb",
        "kernel",
    )
    assert (last.revision, last.result, last.seconds) == ("last", "no rule", 5.0)


def test_failures_of_kernels_are_listed_once() -> None:
    """Faults of the lab and failures without a log are excluded."""

    def failure(why: str, stage: Stage, log: str, scenario: str = "") -> Failure:
        return Failure(why, "r", stage, Reaction.SKIP, why, 1.0, 1.0, scenario=scenario, log=log)

    panic = failure("panic: x", Stage.BOOT, "panic: x\n#0 y")
    crash = failure("went down: panic: z", Stage.BOOT, "panic: z", "forwarding")
    lab = failure("no room", Stage.DEPLOY, "df")
    without_log = failure("hangs", Stage.BOOT, " \n")
    facts = [panic, lab, crash, replace(panic, id="again"), without_log]

    assert change_evidence.failures(facts) == (
        KernelFailure("r", "", "panic: x", "panic: x\n#0 y"),
        KernelFailure("r", "forwarding", "went down: panic: z", "panic: z"),
    )


def test_overlays_of_kernels_are_counted() -> None:
    """Reports show them as conditions of the comparison."""
    kernels = {
        "a": kernel("a", "1"),
        "b": kernel("b", "2", "GENERIC+fix-igb"),
        "c": kernel("c", "3", "GENERIC+fix-igb+fix-pf"),
    }

    assert change_evidence.overlays(Evidence(kernels=kernels)) == {
        "with fix-igb applied": "2 of 3 kernels",
        "with fix-pf applied": "1 of 3 kernels",
    }
    assert change_evidence.overlays(Evidence(kernels={"a": kernels["a"]})) == {}


def test_a_culprit_is_compared_with_its_parent() -> None:
    """Without a culprit, the ends of the range are compared."""
    record = BisectJob(
        "main", "c2558", "good", (Candidate("parent"), Candidate("culprit"), Candidate("bad")),
        ("fwd4",), "fwd4", -0.1, Noise(),
    )  # fmt: skip
    found = [
        Culprit(revision, parent, Posterior({}, 0.0), ())
        for parent, revision in (("parent", "culprit"), ("culprit", "bad"))
    ]

    assert change_evidence.compared(record, None) == (("good", "bad"),)
    assert change_evidence.compared(record, found[0]) == (("parent", "culprit"),)
    both = (("parent", "culprit"), ("culprit", "bad"))
    assert (
        change_evidence.compared(record, SeveralCulprits(tuple(found), Posterior({}, 0.0))) == both
    )
