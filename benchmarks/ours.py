"""netbisect's own search in the simulated lab: the one place that knows both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.engine import Outcome, Verdict
from benchmarks.lab import PRICES, Lab, World
from netbisect.bisect import rehearse
from netbisect.bisect.model import (
    Belief,
    Bisection,
    Candidate,
    Culprit,
    Drift,
    Evidence,
    Finding,
    Noise,
    NotReproduced,
    Reading,
    Several,
    Suspects,
    kernel_name,
)

SCENARIO = "forwarding"
TESTBEDS = tuple(f"machine {i}" for i in range(1, 10))
SURE = 0.99


@dataclass(frozen=True, slots=True)
class Played:
    """One search, seen twice."""

    verified: Outcome
    """At its end."""
    searched: Outcome
    """When its posterior first reached 0.99, proved or not."""


class _Bench(rehearse.PaperLab):
    """The search's own lab on paper, with the truth and the luck of the benchmark."""

    def __init__(self, lab: Lab) -> None:
        world = lab.world
        self.names = [f"r{i}" for i in range(world.commits + 1)]
        self.position = {name: i for i, name in enumerate(self.names)}
        self.accounts: list[Outcome] = []
        """Before each boot."""
        self._lab = lab
        super().__init__(
            levels={},
            noise=Noise(),
            random=np.random.default_rng(0),  # never asked: all luck is the lab's
            broken={self.names[i]: "does not build" for i in world.broken},
            twins=dict(zip(self.names, (self.names[i] for i in world.image), strict=True)),
            prices=PRICES,
        )

    def boot(
        self,
        evidence: Evidence,
        revision: str,
        scenarios: tuple[str, ...],
        *,
        fresh: bool = True,
        runs: int = 1,
        testbed: str = "",
        layout: int = 0,
    ) -> Evidence:
        """Returns the evidence with one more boot, as the lab has it."""
        self.accounts.append(self.account(Verdict()))
        position = self.position[revision]
        self._lab.built.add(position)
        self._lab.relinked.add((position, layout))
        self._lab.boot(position, TESTBEDS.index(testbed or TESTBEDS[0]), layout)
        level = math.fsum(math.log(self._lab.run()) for _ in range(runs)) / runs
        self.boots += 1
        self.runs += runs
        self.seconds += PRICES.boot + PRICES.run * runs * len(scenarios)
        boot = f"boot {self.boots}"
        identity = evidence.kernels[kernel_name(revision, layout)].identity
        values = dict.fromkeys(scenarios, level)
        reading = Reading(boot, revision, identity, values, fresh, runs, testbed, layout)
        return Evidence((*evidence.readings, reading), evidence.kernels, evidence.skipped)

    def account(self, verdict: Verdict) -> Outcome:
        """What was spent by now."""
        return Outcome(verdict, self.builds, self.boots, self.runs, self.seconds / 3600)


def play(world: World, lab: Lab) -> Played:
    """Plays the search to its end."""
    bench = _Bench(lab)
    go = rehearse.play if len(world.apart) == 1 else rehearse.play_together
    question = _question(world, bench.names)
    played = go(question, bench, _known(world, lab, bench), world.builders)
    end = bench.account(_verdict(played.finding, bench.position))
    for visit, account in zip(played.visits, bench.accounts, strict=True):
        early = _sure(visit.belief, bench.position)
        if early is not None:
            spent = account.builds, account.boots, account.runs, account.hours
            return Played(end, Outcome(early, *spent))
    return Played(end, end)


def play_unproved(world: World, lab: Lab) -> Outcome:
    """Plays the search with its verification switched off: it ends at 0.99, as the peers do."""
    bench = _Bench(lab)
    known = _known(world, lab, bench)
    question = _question(world, bench.names)
    played = rehearse.play(question, bench, known, world.builders, verify=False)
    finding = played.finding
    if isinstance(finding, Suspects) and _claims(finding):
        named = tuple(bench.position[name] for name in finding.revisions)
        return bench.account(Verdict(named, posterior=SURE))
    return bench.account(_verdict(finding, bench.position))


def _claims(finding: Suspects) -> bool:
    """Whether these are sure, and no range that holds the culprit somewhere."""
    return all(
        finding.belief.chances[name] + finding.belief.two >= SURE for name in finding.revisions
    )


def _question(world: World, names: list[str]) -> Bisection:
    weights = world.weights.tolist()
    candidates = tuple(
        Candidate(name, weight) for name, weight in zip(names[1:], weights, strict=True)
    )
    scenarios = (SCENARIO,)
    noise = _noise(world)
    return Bisection(
        "benchmark",
        TESTBEDS[0],
        names[0],
        candidates,
        scenarios,
        SCENARIO,
        world.suspected,
        noise,
        others=dict.fromkeys(TESTBEDS[1 : len(world.apart)], noise),
        layouts=world.layouts,
    )


def _noise(world: World) -> Noise:
    """What a lab has learned of its noise: the truth, runs pooled over both sides."""
    ratios = (world.run_sd / world.levels)[[0, -1]]
    return Noise(
        boot=world.boot.sd,
        image=world.image_sd,
        run=float(np.sqrt(np.mean(ratios**2))),
        slow_share=world.boot.low_share,
        slow_gap=-math.log1p(-world.boot.low_gap),
    )


def _known(world: World, lab: Lab, bench: _Bench) -> Evidence:
    """Both ends are built, and perhaps measured."""
    evidence = Evidence()
    for position in (0, world.commits):
        name = bench.names[position]
        evidence = bench.with_built(evidence, name)
        identity = evidence.kernels[name].identity
        readings = tuple(
            Reading(f"known {name} {i}", name, identity, {SCENARIO: math.log(pps)}, fresh=False)
            for i, pps in enumerate(lab.remembered(position))
        )
        evidence = Evidence((*evidence.readings, *readings), evidence.kernels, evidence.skipped)
    return evidence


def _sure(belief: Belief | None, position: dict[str, int]) -> Verdict | None:
    """The commit that a search without proof would name by now."""
    if belief is None:
        return None
    revision = max(belief.chances, key=belief.chances.__getitem__)
    if belief.chances[revision] < SURE:
        return None
    return Verdict((position[revision],), posterior=belief.chances[revision])


def _verdict(finding: Finding, position: dict[str, int]) -> Verdict:
    match finding:
        case Culprit(revision=revision, chance=chance):
            return Verdict((position[revision],), posterior=chance)
        case Several(culprits=culprits):
            named = tuple(position[one.revision] for one in culprits)
            return Verdict(named, posterior=min(one.chance for one in culprits))
        case NotReproduced(belief=belief):
            return Verdict(none=True, posterior=belief.none)
        case Suspects(revisions=revisions):
            return Verdict(suspects=tuple(position[name] for name in revisions))
        case Drift(belief=belief):
            return Verdict(posterior=belief.drift)
        case _:
            return Verdict()
