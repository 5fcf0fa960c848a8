"""A drop of 11 % made by commit n40 of n9 to n72, told at every stage; for the tests of reports."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import count, cycle, islice
from typing import Any

from netbisect.bisect.model import (
    Belief,
    Commit,
    Confirmed,
    Cost,
    Culprit,
    Effect,
    Level,
    NotReproduced,
    Profile,
    Suspects,
    Unfinished,
)
from netbisect.reports.case import Attempt, Case, Compared, Failure, Links, Taken

DAY = 86400.0
START = 1_772_323_200.0  # 2026-03-01
GOOD, CULPRIT, BAD = 8, 40, 72
TITLES = {"fwd4": "forwarding, inet4", "fwd6": "forwarding, inet6", "pf4": "pf, inet4"}
LEVELS = {"fwd4": 1_488_095.0, "fwd6": 1_203_400.0, "pf4": 623_400.0}
DROPS = {"fwd4": 0.891, "fwd6": 0.957, "pf4": 1.001}
_SCATTER = (0.4, -0.9, 1.2, -0.3, 0.0, -1.4, 0.8, 0.5, -0.6, 0.1, 0.9)


def revision(number: int) -> str:
    """The hash of the commit of that number."""
    return f"{number * 0x9E3779B97F4A7C15 & (1 << 160) - 1:040x}"[::-1]


def label(number: int) -> str:
    """What the service would call it."""
    return f"n{number}-{revision(number)[:12]}"


def commit(number: int, subject: str = "") -> Commit:
    """A commit; the culprit has the trailers that FreeBSD's commits have."""
    body = ""
    if number == CULPRIT:
        body = (
            "Every packet now takes the route lock once more.\n\n"
            "Reviewed by:\ta reviewer\n"
            "MFC after:\t2 weeks\n"
            "Differential Revision:\thttps://reviews.freebsd.org/D51234\n"
        )
    return Commit(
        revision=revision(number),
        number=number,
        subject=subject or f"net: tidy up the route lookup, part {number}",
        body=body,
        author="A Committer",
        email="committer@example.org",
        at=START + number * 3600,
        paths=("sys/net/route.c",),
        lines=12,
    )


def boots(scenario: str, number: int, n: int) -> list[float]:
    """That many boots of the kernel of that commit, pps."""
    level = LEVELS[scenario] * (DROPS[scenario] if number >= CULPRIT else 1.0)
    start = number * 3 + len(scenario)
    scatter = islice(cycle(_SCATTER), start, start + n)
    return [round(level * (1 + percent / 100), 1) for percent in scatter]


def effect(scenario: str, n: int, half_width: float = 0.013) -> Effect:
    """What n boots on either side would have found."""
    ln_ratio = math.log(DROPS[scenario])
    p = 3e-9 if ln_ratio < -0.03 else 0.6
    return Effect(scenario, ln_ratio, ln_ratio - half_width, ln_ratio + half_width, p, n, n)


def belief(low: int, high: int, none: float = 0.01) -> Belief:
    """Even odds from commit low to commit high, next to nothing elsewhere."""
    inside = [number for number in range(GOOD + 1, BAD + 1) if low <= number <= high]
    outside = BAD - GOOD - len(inside)
    rest = 0.02 if outside else 0.0
    return Belief(
        {
            revision(number): (1 - none - rest) / len(inside)
            if low <= number <= high
            else rest / outside
            for number in range(GOOD + 1, BAD + 1)
        },
        none,
    )


def attempts() -> tuple[Attempt, ...]:
    """A kernel and a boot for every step of a binary search that meets one broken build."""
    seq = count(1)
    made: list[Attempt] = []
    low, high = GOOD + 1, BAD
    for asked in (GOOD, BAD, 40, 24, 32, 36, 38, 39, 40):
        base: dict[str, Any] = {
            "revision": revision(asked),
            "belief": belief(low, high),
            "at": START + 5 * DAY + len(made) * 700,
        }
        if asked not in (GOOD, BAD):
            failed = asked == 36
            made.append(
                Attempt(
                    seq=next(seq),
                    stage="kernel",
                    why="halves what is left",
                    outcome="does not build" if failed else "built",
                    ln_pps=None,
                    seconds=612.0,
                    **base,
                )
            )
            if failed:
                continue
        made += [
            Attempt(
                seq=next(seq),
                stage="trial",
                why="most to learn for its price",
                outcome="measured",
                ln_pps=math.log(rate),
                seconds=214.0,
                **base,
            )
            for rate in boots("fwd4", asked, 2)
        ]
        if GOOD < asked < CULPRIT:
            low = max(low, asked + 1)
        if asked >= CULPRIT:
            high = min(high, asked)
    return tuple(made)


def series(scenario: str, nights: int = 60) -> tuple[Level, ...]:
    """Nightly levels: all fast up to the good end, all slow from the bad one, six nights."""
    levels = []
    for night in range(nights):
        left = nights - night
        fast = left > 6
        name = {7: revision(GOOD), 6: revision(BAD)}.get(left, revision(1000 + night))
        start = LEVELS[scenario] * (1.0 if fast else DROPS[scenario])
        scatter = islice(cycle(_SCATTER), night * 4, night * 4 + 5)
        rates = tuple(math.log(start * (1 + percent / 100)) for percent in scatter)
        at = START + (night - nights + 7) * DAY
        levels.append(Level(name, f"{name[:8]}-identity", at, rates))
    return tuple(levels)


def alert_case(**changes: Any) -> Case:
    """The drop is confirmed, the search begins."""
    numbers = range(GOOD, BAD + 1)
    case = Case(
        number=17,
        branch="main",
        testbed="c2558",
        hardware="Intel Atom C2558, i350",
        titles=TITLES,
        lead="fwd4",
        good=commit(GOOD),
        bad=commit(BAD),
        commits=tuple(commit(number) for number in numbers if number > GOOD),
        confirmed=Confirmed(tuple(effect(scenario, 12) for scenario in TITLES)),
        pps={
            scenario: {
                revision(number): boots(scenario, number, n)
                for number, n in ((GOOD, 14), (24, 2), (39, 12), (40, 14), (BAD, 14))
            }
            for scenario in TITLES
        },
        series={scenario: series(scenario) for scenario in TITLES},
        labels={
            **{revision(number): label(number) for number in numbers},
            **{revision(1000 + night): label(night) for night in range(60)},
        },
        cost=Cost(builds=2, boots=24, runs=72, seconds=9_000.0),
        conditions={
            "kernel configuration": "GENERIC-NODEBUG",
            "flows": "2000 UDP flows of 60-byte packets",
            "offered": "1.488 Mpps",
            "net.inet.ip.redirect": "0",
        },
        links=Links(
            alert="https://netbisect.example.org/reports/17.html",
            commit="https://cgit.freebsd.org/src/commit/?id={revision}",
        ),
        command=f"netbisect compare --testbed c2558 --branch main {revision(39)} {revision(40)}",
        unmoved=("apu2", "e5-2650: forwarding, inet4"),
    )
    return replace(case, **changes)


def culprit_case(**changes: Any) -> Case:
    """The search named n40 and proved it."""
    finding = Culprit(
        revision=revision(CULPRIT),
        parent=revision(CULPRIT - 1),
        belief=belief(CULPRIT, CULPRIT, none=0.001),
        effects=tuple(effect(scenario, 10) for scenario in TITLES),
    )
    chances = dict.fromkeys(finding.belief.chances, 0.003 / 63) | {revision(CULPRIT): 0.996}
    finding = replace(finding, belief=Belief(chances, 0.001))
    return alert_case(
        **{
            "finding": finding,
            "attempts": attempts(),
            "skipped": {revision(36): "does not build: route.c:12: unknown type name"},
            "cost": Cost(builds=9, boots=60, runs=180, seconds=31_000.0),
        }
        | changes
    )


def suspects_case(**changes: Any) -> Case:
    """Three commits remain, two of which do not build."""
    finding = Suspects(
        tuple(revision(number) for number in (38, 39, 40)),
        belief(38, 40),
        "two of them do not build",
    )
    skipped = {revision(38): "does not build", revision(39): "does not build"}
    return culprit_case(**{"finding": finding, "skipped": skipped} | changes)


def not_reproduced_case(**changes: Any) -> Case:
    """Nothing changed within the range."""
    finding = NotReproduced(belief(GOOD + 1, BAD, none=0.97), "both ends are equally fast now")
    return culprit_case(**{"finding": finding} | changes)


def unfinished_case(**changes: Any) -> Case:
    """The lab gave up."""
    finding = Unfinished("the testbed is in quarantine", belief(37, 40))
    return culprit_case(**{"finding": finding} | changes)


def large_case(scenarios: int = 12, commits: int = 256, visits: int = 60) -> Case:
    """A culprit with all that a large lab adds: many of everything, and no order in the beliefs."""
    luck = random.Random(1)
    titles = {
        f"sc{i}": f"forwarding of path {i:02} with a firewall, inet4" for i in range(scenarios)
    }
    line = tuple(
        replace(
            commit(CULPRIT), revision=revision(number), number=number, subject="net: " + "x " * 60
        )
        for number in range(GOOD + 1, GOOD + 1 + commits)
    )

    def any_belief() -> Belief:
        weights = [luck.random() ** 8 for _ in line]
        return Belief(
            {one.revision: w / sum(weights) for one, w in zip(line, weights, strict=True)}, 0.0
        )

    effects = tuple(Effect(name, -0.1, -0.12, -0.08, 1e-6, 10, 10) for name in titles)
    taken = tuple(
        Taken(
            Profile(revision(number), "k", "c2558", "sc0", "cycles", 6e5, 20_000, None, 1.0, 30.0),
            {
                tuple(f"function_{i >> (12 - depth)}" for depth in range(13)): 1 + i % 7
                for i in range(3000)
            },
        )
        for number in (CULPRIT - 1, CULPRIT)
    )
    finding = Culprit(revision(CULPRIT), revision(CULPRIT - 1), any_belief(), effects)
    log = "".join(f"#{i} 0xffffffff80b1{i:04x} at ip_tryforward+0x2c4\n" for i in range(300))
    return culprit_case(
        titles=titles,
        lead="sc0",
        commits=line,
        bad=line[-1],
        confirmed=Confirmed(effects),
        finding=finding,
        labels={one.revision: label(one.number) for one in line},
        pps={
            name: {
                one: [1e6 * (1 + luck.random() / 100) for _ in range(14)]
                for one in (*map(revision, (GOOD, CULPRIT - 1, CULPRIT)), line[-1].revision)
            }
            for name in titles
        },
        series={
            name: tuple(
                Level(
                    revision(1000 + i), f"i{i}", START + i * DAY,
                    tuple(14 + luck.random() / 100 for _ in range(5)),
                )
                for i in range(1000)
            )
            for name in titles
        },
        attempts=tuple(
            Attempt(
                seq=i + 1, stage="trial", revision=luck.choice(line).revision,
                why="splits what is left in two halves of about the same chance", outcome="booted",
                belief=any_belief(), ln_pps=14 + luck.random() / 100, at=START + i, seconds=600,
            )
            for i in range(visits)
        ),
        failures=tuple(Failure(one.revision, "", "panic: page fault", log) for one in line[:20]),
        unmoved=tuple(
            f"testbed-{i} ({', '.join(list(titles.values())[1:])})" for i in range(9)
        ),
        profiles=(Compared((revision(CULPRIT - 1), revision(CULPRIT)), taken),),
    )  # fmt: skip
