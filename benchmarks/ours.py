"""netbisect's search in the simulated lab."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks import simulate
from benchmarks.engine import Outcome, Verdict
from benchmarks.lab import Lab, World
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import BisectJob, Candidate, CompareJob
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Drift,
    NotConfirmed,
    NotReproduced,
    Result,
    SeveralCulprits,
    Suspects,
)

SCENARIO = "forwarding"
TESTBEDS = tuple(f"machine {i}" for i in range(1, 10))


class _Bench(simulate.LabSimulation):
    """Adapter of the benchmark lab to `LabSimulation`."""

    def __init__(self, lab: Lab) -> None:
        world = lab.world
        self.names = [f"r{i}" for i in range(world.commits + 1)]
        self.position = {name: i for i, name in enumerate(self.names)}
        self._lab = lab
        super().__init__(
            levels={},
            noise=Noise(),
            random=np.random.default_rng(0),  # unused: the lab draws all random numbers
            broken={self.names[i]: "does not build" for i in world.broken},
            same_kernel=dict(zip(self.names, (self.names[i] for i in world.image), strict=True)),
            prices=world.prices,
        )

    def measure(self, revision: str, layout: int, identity: str, testbed: str, runs: int) -> float:
        """Mean ln pps of the runs of a new boot of the lab."""
        del identity
        position = self.position[revision]
        self._lab.seconds = self.seconds  # builds took time too
        self._lab.boot(position, TESTBEDS.index(testbed or TESTBEDS[0]), layout)
        return math.fsum(math.log(self._lab.run()) for _ in range(runs)) / runs


def play(world: World, lab: Lab) -> Outcome:
    """Runs the search to its verdict, after a retest of the ends if the world has one."""
    bench = _Bench(lab)
    job, known = _job(world, bench.names), _known(world, lab, bench)
    if world.retest:
        job, known = _retested(job, bench, known)
    if isinstance(job, BisectJob):
        result = simulate.simulate_job(job, bench, known, world.builders).result
        verdict = _verdict(result, bench.position)
    else:
        verdict = job
    return Outcome(verdict, bench.builds, bench.boots, bench.runs, bench.seconds / 3600)


def _retested(
    job: BisectJob, bench: _Bench, known: Evidence
) -> tuple[BisectJob | Verdict, Evidence]:
    """The search for the confirmed effect, or the verdict of an unconfirmed retest."""
    ends = job.good, job.bad
    of = job.branch, job.testbed, *ends, job.scenarios, job.lead
    commits = len(job.candidates)
    retest = CompareJob(*of, job.effect, noise=job.noise, commits=commits)
    played = simulate.simulate_job(retest, bench, known)
    if isinstance(played.result, Confirmed):
        inherited = tuple(replace(r, fresh=False) for r in played.evidence.observations)
        effect = played.result.effects[0].ln_ratio
        known = replace(played.evidence, observations=inherited)
        return replace(job, effect=effect), known
    found = played.result
    decided = isinstance(found, NotConfirmed) and found.effects[0].low > -retest.min_effect
    return Verdict(none=decided), known


def _job(world: World, names: list[str]) -> BisectJob:
    weights = world.weights.tolist()
    candidates = tuple(
        Candidate(name, weight) for name, weight in zip(names[1:], weights, strict=True)
    )
    scenarios = (SCENARIO,)
    noise = _noise(world)
    return BisectJob(
        "benchmark",
        TESTBEDS[0],
        names[0],
        candidates,
        scenarios,
        SCENARIO,
        world.suspected,
        noise,
        others=dict.fromkeys(TESTBEDS[1 : len(world.offsets)], noise),
        layouts=world.layouts,
    )


def _noise(world: World) -> Noise:
    """True noise of the lab, with run noise pooled over both sides."""
    ratios = (world.run_sd / world.levels)[[0, -1]]
    return Noise(
        boot=math.hypot(world.boot.sd, world.wander[0]),
        image=world.image_sd,
        run=float(np.sqrt(np.mean(ratios**2))),
        slow_share=world.boot.low_share,
        slow_gap=-math.log1p(-world.boot.low_gap),
    )


def _known(world: World, lab: Lab, bench: _Bench) -> Evidence:
    """Evidence of the built ends, with their earlier boots if any."""
    evidence = Evidence()
    for position in (0, world.commits):
        name = bench.names[position]
        evidence = bench.with_built(evidence, name)
        identity = evidence.kernels[name].identity
        observations = tuple(
            Observation(f"known {name} {i}", name, identity, {SCENARIO: math.log(pps)}, fresh=False)
            for i, pps in enumerate(lab.earlier_boots(position))
        )
        evidence = Evidence(
            (*evidence.observations, *observations), evidence.kernels, evidence.skipped
        )
    return evidence


def _verdict(result: Result, position: dict[str, int]) -> Verdict:
    match result:
        case Culprit(revision=revision, chance=chance):
            return Verdict((position[revision],), posterior=chance)
        case SeveralCulprits(culprits=culprits):
            named = tuple(position[one.revision] for one in culprits)
            return Verdict(named, posterior=min(one.chance for one in culprits))
        case NotReproduced(posterior=posterior):
            return Verdict(none=True, posterior=posterior.none)
        case Suspects(revisions=revisions):
            return Verdict(suspects=tuple(position[name] for name in revisions))
        case Drift(posterior=posterior):
            return Verdict(posterior=posterior.drift)
        case _:
            return Verdict()
