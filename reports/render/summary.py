"""Figures of a case for mails and pages."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import geometric_mean
from typing import assert_never

from netbisect.bisect.model.alert_change import change_of
from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Drift,
    Effect,
    NotReproduced,
    Posterior,
    SeveralCulprits,
    Suspects,
    Unfinished,
)
from netbisect.reports.model.case import HASH_LENGTH, Attempt, Case
from netbisect.reports.render import words
from netbisect.reports.render.ministat import POINTS_MIN, ministat

_TRAILERS = ("PR", "Reviewed by", "Differential Revision", "MFC after")
_TRAILER = re.compile(rf"^({'|'.join(_TRAILERS)}):[ \t]*(\S.*)$", re.MULTILINE | re.IGNORECASE)
_REVIEW = re.compile(r"\bD\d+\b")
_WAIT = re.compile(r"(\d{1,3})\s*(day|week|month)", re.IGNORECASE)
_DAYS = {"day": 1, "week": 7, "month": 30}
_SECONDS_OF_A_DAY = 86400
_NAME_MAX = 72
"""Longest name of a set in a ministat block that still fits the frame."""
_TREND, _AFTER, _TREND_MIN = 12, 3, 3
"""Revisions of a trend in text: in all, of those from the change on, and at least."""
_MARKS = 20
"""Columns between the slowest and the fastest."""
_NO_PROOF = "No difference proven"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table of effects."""

    title: str
    before: str
    after: str
    change: str


@dataclass(frozen=True, slots=True)
class Stop:
    """A revision on the path of the search."""

    label: str
    boots: str
    change: str
    """Against the good end."""
    result: str
    """Its mean, or the reason that there is none."""


def effects(case: Case) -> tuple[Effect, ...]:
    """The effects to publish, the leading scenario first."""
    return change_of(case.confirmed.effects if case.confirmed else (), case.finding).effects


def culprits(case: Case) -> tuple[Culprit, ...]:
    """The verified commits, that with the largest effect first."""
    if isinstance(case.finding, SeveralCulprits):
        return case.finding.culprits
    return (case.finding,) if isinstance(case.finding, Culprit) else ()


def sides(case: Case) -> tuple[str, str]:
    """The two revisions that the published effects compare."""
    if isinstance(case.finding, Culprit):
        return case.finding.parent, case.finding.revision
    return case.good.revision, case.bad.revision


def latest(case: Case, effect: Effect) -> tuple[list[float], list[float]]:
    """The boots behind an effect: the latest of either side, as many as it counts."""
    good, bad = (case.boots(effect.scenario, revision) for revision in sides(case))
    return (
        list(good[max(len(good) - effect.good_boots, 0) :]),
        list(bad[max(len(bad) - effect.bad_boots, 0) :]),
    )


def level(boots: list[float]) -> float | None:
    """Their geometric mean; None without boots."""
    return geometric_mean(boots) if boots else None


def rows(case: Case) -> list[Row]:
    """The table of effects, the worst first."""
    table = []
    for effect in sorted(effects(case), key=lambda effect: effect.ln_ratio):
        before, after = (_number(level(side), effect.scenario) for side in latest(case, effect))
        table.append(Row(case.title(effect.scenario), before, after, words.change(effect)))
    return table


def _number(value: float | None, series: str) -> str:
    return "-" if value is None else words.number(value, series)


def heading(case: Case) -> str:
    """Heading of the table of effects."""
    match case.finding:
        case Culprit():
            return "Changes by this commit"
        case NotReproduced():
            return "Changes reported by the alert"
        case _:
            return "Changes between the two ends"


def headline(case: Case) -> str:
    """The result in one or two sentences."""
    if case.finding is not None:
        return words.sentence(case.finding, case.label, case.title)
    ends = f"between {case.label(case.good.revision)} and {case.label(case.bad.revision)}"
    if case.confirmed is None:
        return f"A search runs on {case.testbed} {ends}."
    lead = case.confirmed.effects[0]
    return (
        f"{case.branch} is {words.direction(lead)} on {case.testbed}: {case.title(lead.scenario)} "
        f"{words.change(lead)} {ends}. {proof(case.confirmed)}"
    )


def proof(confirmed: Confirmed) -> str:
    """The evidence for a confirmed drop."""
    lead = confirmed.effects[0]
    return (
        f"Both ends were measured again with {words.boots(lead)}, interleaved. Probability of this "
        f"by chance: {words.probability_by_chance(lead.p)}."
    )


def why(case: Case) -> list[str]:
    """The rule behind the verdict with its numbers, a paragraph each."""
    paragraphs = [proof(case.confirmed)] if case.confirmed else []
    record = len({attempt.revision for attempt in steps(case)})
    if record:
        paragraphs.append(
            f"The search tested {words.count(record, 'revision')} of {len(case.commits) + 1}, each "
            "time the one with the largest expected information per cost. Every boot updates the "
            "probabilities of all candidates, according to the noise of the testbed."
        )
    match case.finding:
        case Culprit():
            paragraphs.append(_verified(case, case.finding))
        case SeveralCulprits():
            paragraphs.extend(_verified(case, culprit) for culprit in case.finding.culprits)
        case Drift():
            paragraphs.append(
                "A gradual change over many commits fits the measurements better than one step, "
                "so no commit is named."
            )
        case Suspects():
            paragraphs.append(
                "A commit is named only after its kernel and its parent's have both been measured. "
                "That is not possible here, so all commits that fit the measurements are listed."
            )
        case NotReproduced():
            paragraphs.append(
                "Probability that no commit of the range changed the level: "
                f"{words.certainty(case.finding.belief.none)}."
            )
        case Unfinished():
            paragraphs.append("The measurements so far do not identify a commit.")
        case None:
            paragraphs.append("The search is running; the results below are preliminary.")
        case _:
            assert_never(case.finding)
    return paragraphs


def _verified(case: Case, finding: Culprit) -> str:
    lead = finding.effects[0]
    return (
        f"The most probable commit, {case.label(finding.revision)}, was verified: its kernel and "
        f"that of its parent {case.label(finding.parent)} were booted again, interleaved, "
        f"{words.boots(lead)}. The reported changes come from these boots alone: "
        f"{words.change(lead)} for {case.title(lead.scenario)}. Probability of this by chance: "
        f"{words.probability_by_chance(lead.p)}."
    )


def belief(case: Case) -> Posterior | None:
    """The latest posterior."""
    if case.finding is not None and case.finding.belief is not None:
        return case.finding.belief
    known = [attempt.belief for attempt in case.attempts if attempt.belief is not None]
    return known[-1] if known else None


def leader(case: Case, held: Posterior | None) -> str:
    """The most probable answer: `n40-0a1b2c3d4e5f, 31.0 %`."""
    if held is None:
        return ""
    most = max(held.chances.values(), default=0.0)
    if held.none >= most:
        return f"no change, {words.certainty(held.none)}"
    first, *others = (revision for revision, chance in held.chances.items() if chance > 0.99 * most)
    if others:
        return f"{words.count(1 + len(others), 'commit')}, {words.certainty(most)} each"
    return f"{case.label(first)}, {words.certainty(most)}"


def subject_name(commit: Commit) -> str:
    """A commit in the subject of a mail: n302145, or r311849 where histories count so."""
    short = len(commit.revision) < HASH_LENGTH
    return commit.revision if short else f"n{commit.number}"


def trailers(commit: Commit) -> list[tuple[str, str]]:
    """Trailers of a commit message about its review and MFC."""
    found = []
    for match in _TRAILER.finditer(commit.body):
        name = next(known for known in _TRAILERS if known.lower() == match[1].lower())
        value = words.clean(match[2])
        if name == "MFC after" and (wait := _WAIT.search(value)):
            due = commit.at + int(wait[1]) * _DAYS[wait[2].lower()] * _SECONDS_OF_A_DAY
            value = f"{value}, not before {words.day(due)}"
        found.append((name, value))
    return found


def reviews(case: Case, commit: Commit) -> dict[str, str]:
    """The reviews that a commit names, each with its address."""
    numbers = [
        number
        for name, value in trailers(commit)
        if name == "Differential Revision"
        for number in _REVIEW.findall(value)
    ]
    return {number: case.links.to_review(number) for number in numbers}


def block(case: Case) -> str:
    """The leading scenario as `ministat -s` shows it, raw numbers; empty with too few boots."""
    lead = next((effect for effect in effects(case) if effect.scenario == case.lead), None)
    if lead is None:
        boots = [list(case.boots(case.lead, revision)) for revision in sides(case)]
    else:
        boots = list(latest(case, lead))
    if min(map(len, boots)) < POINTS_MIN:
        return ""
    names = [words.clean(case.label(revision))[:_NAME_MAX] for revision in sides(case)]
    return ministat(list(zip(names, boots, strict=True)))


def remark(case: Case) -> str:
    """Explanation if ministat and the verdict seem to disagree; else empty."""
    text = block(case)
    if not text:
        return ""
    proven = _NO_PROOF not in text
    if proven and isinstance(case.finding, NotReproduced):
        return (
            "ministat reports a difference between these two kernels. Kernel images differ a "
            "little in speed without a reason in their sources; the search accounts for that, "
            "ministat does not."
        )
    if not proven and effects(case):
        return (
            "ministat does not prove this difference: it assumes normal noise, equal on both "
            "sides. The verdict does not depend on it."
        )
    return ""


def steps(case: Case) -> list[Attempt]:
    """The informative attempts: boots, and kernels without a boot."""
    return [
        attempt
        for attempt in case.attempts
        if attempt.stage == "trial" or attempt.revision in case.skipped
    ]


def measured_on(case: Case) -> str:
    """Testbeds of the search, unless it used its own alone."""
    names = words.listing(list(case.testbeds))
    several = len(case.testbeds) > 1
    return f"{names}; rates and ministat are of {case.shown}" if several else names


def path(case: Case) -> list[Stop]:
    """Tested revisions, in the order of their first trial."""
    visits: dict[str, list[Attempt]] = {}
    for attempt in steps(case):
        visits.setdefault(attempt.revision, []).append(attempt)
    apart = _apart(case)
    rates = {
        revision: [
            attempt.ln_pps - apart[attempt.testbed or case.testbed]
            for attempt in attempts
            if attempt.ln_pps is not None and (attempt.testbed or case.testbed) in apart
        ]
        for revision, attempts in visits.items()
    }
    good = rates.get(case.good.revision)
    stops = []
    for revision in visits:
        stops.append(_stop(case, visits[revision][-1], rates[revision], good))
        reason = f"same kernel as {case.label(revision)}"
        stops += [
            Stop(case.label(side), "", "", reason)
            for side, twin in case.stand_ins.items()
            if twin == revision
        ]
    return stops


def _apart(case: Case) -> dict[str, float]:
    """Offset of each testbed from the displayed one at the good end, as an ln ratio."""
    reference = case.shown or case.testbed
    found: dict[str, list[float]] = {}
    for attempt in steps(case):
        if attempt.revision == case.good.revision and attempt.ln_pps is not None:
            found.setdefault(attempt.testbed or case.testbed, []).append(attempt.ln_pps)
    means = {name: math.fsum(seen) / len(seen) for name, seen in found.items()}
    own = means.get(reference)
    apart = {} if own is None else {name: mean - own for name, mean in means.items()}
    return {**apart, reference: 0.0}


def _stop(case: Case, last: Attempt, rates: list[float], good: list[float] | None) -> Stop:
    if not rates:
        why = case.skipped.get(last.revision, last.outcome)
        return Stop(case.label(last.revision), "", "", words.reason(why))
    mean = math.fsum(rates) / len(rates)
    against = (
        ""
        if not good or rates is good
        else words.percent(mean - math.fsum(good) / len(good), case.lead)
    )
    return Stop(
        case.label(last.revision),
        words.count(len(rates), "boot"),
        against,
        words.level(mean, case.lead),
    )


def crashes(case: Case) -> list[tuple[str, str, str]]:
    """Kernels that panicked under load: label, scenario, message."""
    return [
        (case.label(one.revision), case.title(one.scenario), words.reason(one.why))
        for one in case.failures
        if one.scenario
    ]


@dataclass(frozen=True, slots=True)
class TrendLine:
    """A line of the trend: a revision that was measured, oldest first."""

    day: str
    label: str
    rate: str
    place: str
    """A mark between the slowest and the fastest of these lines."""
    step: str
    """The change, at the first revision of the slower side; otherwise empty."""
    culprit: str
    """At the change: the verified commit, if any; otherwise empty."""


def trend(case: Case) -> list[TrendLine]:
    """The latest revisions up to the change and a few after it; empty with fewer than three."""
    levels = case.series.get(case.lead, ())
    step = _first_slow(case, [level.revision for level in levels])
    end = len(levels) if step is None else min(step + _AFTER, len(levels))
    shown = levels[max(end - _TREND, 0) : end]
    if len(shown) < _TREND_MIN:
        return []
    means = [level.mean for level in shown]
    low, wide = min(means), (max(means) - min(means)) or 1.0
    first = end - len(shown)
    published = effects(case)
    change = words.percent(published[0].ln_ratio, published[0].scenario) if published else "change"
    culprit = next((case.label(one.revision) for one in culprits(case)), "")
    return [
        TrendLine(
            words.day(level.at),
            case.label(level.revision),
            words.level(mean, case.lead),
            " " * round((mean - low) / wide * (_MARKS - 1)) + "*",
            change if first + i == step else "",
            culprit if first + i == step else "",
        )
        for i, (level, mean) in enumerate(zip(shown, means, strict=True))
    ]


def _first_slow(case: Case, names: list[str]) -> int | None:
    """Place of the first level with the change: of a verified commit, or else of the bad end."""
    order = {commit.revision: place for place, commit in enumerate(case.commits)}
    named = [order[one.revision] for one in culprits(case) if one.revision in order]
    after = named[0] if named else order.get(case.bad.revision, len(order))
    found = [place for place, name in enumerate(names) if order.get(name, -1) >= after]
    if found:
        return found[0]
    return names.index(case.good.revision) + 1 if case.good.revision in names else None


def cost(case: Case) -> str:
    """Cost of the case, on one line."""
    spent = case.cost
    return (
        f"{words.count(spent.builds, 'kernel')} built, {words.count(spent.boots, 'boot')}, "
        f"{words.count(spent.runs, 'run')}, {words.duration(spent.seconds)} of the lab's time"
    )
