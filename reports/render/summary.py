"""Figures of a change for mails and pages."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from statistics import geometric_mean

from netbisect.bisect.commit_trailers import parse_trailers
from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import Posterior
from netbisect.reports.model.changes import ChangeDocument, StepDocument, VerifiedCommit
from netbisect.reports.model.types import Difference, RevisionDocument
from netbisect.reports.render import words
from netbisect.reports.render.ministat import ASSUMES_NORMAL, POINTS_MIN, UNPROVEN, ministat

_TRAILERS = ("PR", "Reviewed by", "Differential Revision", "MFC after")
_TRAILER = re.compile(rf"^({'|'.join(_TRAILERS)}):[ \t]*(\S.*)$", re.MULTILINE | re.IGNORECASE)
_REVIEW = re.compile(r"\bD\d+\b")
_NAME_MAX = 72
"""Longest name of a set in a ministat block that still fits the frame."""
_TREND, _AFTER, _TREND_MIN = 12, 3, 3
"""Revisions of a trend in text: in all, of those from the change on, and at least."""
_MARKS = 20
"""Columns between the slowest and the fastest."""
UNDECIDED = ("running", "confirmed")
"""Outcomes before the end of a search."""
_WHY = {
    "drift": (
        "A gradual change over many commits fits the measurements better than one step, so no "
        "commit is named."
    ),
    "suspects": (
        "A commit is named only after its kernel and its parent's have both been measured. That is "
        "not possible here, so all commits that fit the measurements are listed."
    ),
    "unfinished": "The measurements so far do not identify a commit.",
}
_REVIEWS = "https://reviews.freebsd.org/"


def sides(document: ChangeDocument) -> tuple[str, str]:
    """The two revisions that the published effects compare."""
    if document.outcome == "culprit":
        return document.culprits[0].parent, document.culprits[0].revision
    return document.good.revision, document.bad.revision


def latest(document: ChangeDocument, effect: Difference) -> tuple[list[float], list[float]]:
    """The boots behind an effect: the latest of either side, as many as it counts."""
    good, bad = (document.numbers(effect.scenario, revision) for revision in sides(document))
    return (
        list(good[max(len(good) - effect.good_boots, 0) :]),
        list(bad[max(len(bad) - effect.bad_boots, 0) :]),
    )


def rows(document: ChangeDocument) -> list[tuple[str, str, str, str]]:
    """The table of effects, the worst first: scenario, rate before and after, and change."""
    table = []
    for effect in sorted(document.differences, key=lambda effect: effect.ln_ratio):
        before, after = (
            words.number(geometric_mean(side), effect.scenario) if side else "-"
            for side in latest(document, effect)
        )
        table.append((document.title(effect.scenario), before, after, words.change(effect)))
    return table


def culprit(document: ChangeDocument) -> RevisionDocument | None:
    """The verified commit, if it is the only one and known."""
    if document.outcome != "culprit":
        return None
    return document.commit(document.culprits[0].revision)


def heading(document: ChangeDocument) -> str:
    """Heading of the table of effects."""
    texts = {
        "culprit": "Changes by this commit",
        "not-reproduced": "Changes reported by the alert",
    }
    return texts.get(document.outcome, "Changes between the two ends")


def headline(document: ChangeDocument) -> str:
    """The result in one or two sentences."""
    if document.outcome not in UNDECIDED:
        return document.sentence
    ends = f"between {document.good.label} and {document.bad.label}"
    if not document.retest:
        return f"A search runs on {document.testbed} {ends}."
    lead = document.retest[0]
    return (
        f"{document.branch} is {words.direction(lead)} on {document.testbed}: "
        f"{document.title(lead.scenario)} {words.change(lead)} {ends}. {proof(lead)}"
    )


def proof(lead: Difference) -> str:
    """The evidence for a confirmed drop."""
    return (
        f"Both ends were measured again with {words.boots(lead)}, interleaved. Probability of this "
        f"by chance: {words.probability_by_chance(lead.p)}."
    )


def why(document: ChangeDocument) -> list[str]:
    """The rule behind the verdict with its numbers, a paragraph each."""
    paragraphs = [proof(document.retest[0])] if document.retest else []
    record = len({step.revision for step in steps(document)})
    if record and document.chances:
        paragraphs.append(
            f"The search tested {words.count(record, 'revision')} of "
            f"{len(document.candidates) + 1}, each time the one with the largest expected "
            "information per cost. Every boot updates the probabilities of all candidates, "
            "according to the noise of the testbed."
        )
    elif document.unsearched:
        paragraphs.append(document.unsearched)
    paragraphs += [_verified(document, one) for one in document.culprits]
    if document.outcome == "running":
        paragraphs.append("The search is running; the results below are preliminary.")
    elif document.outcome == "not-reproduced":
        none = document.chances.none if document.chances else 0.0
        paragraphs.append(
            f"Probability that no commit of the range changed the level: {words.certainty(none)}."
        )
    elif document.outcome in _WHY:
        paragraphs.append(_WHY[document.outcome])
    return paragraphs


def _verified(document: ChangeDocument, verified: VerifiedCommit) -> str:
    lead = verified.differences[0]
    return (
        f"The most probable commit, {document.label(verified.revision)}, was verified: its kernel "
        f"and that of its parent {document.label(verified.parent)} were booted again, interleaved, "
        f"{words.boots(lead)}. The reported changes come from these boots alone: "
        f"{words.change(lead)} for {document.title(lead.scenario)}. Probability of this by chance: "
        f"{words.probability_by_chance(lead.p)}."
    )


def leader(document: ChangeDocument, held: Posterior | None) -> str:
    """The most probable answer: `n40-0a1b2c3d4e5f, 31.0 %`, or `24 commits, 4.1 % each`."""
    if held is None:
        return ""
    most = max(held.none, held.two, held.drift, *held.chances.values())
    alike = sum(chance > 0.99 * most for chance in held.chances.values())
    if alike > 1:
        return f"{words.count(alike, 'commit')}, {words.certainty(most)} each"
    return words.likeliest(held, document.label)


def trailers(commit: Commit) -> list[tuple[str, str]]:
    """Trailers of a commit message about its review and MFC."""
    found = []
    for match in _TRAILER.finditer(commit.body):
        name = next(known for known in _TRAILERS if known.lower() == match[1].lower())
        value = words.clean(match[2])
        if name == "MFC after" and (wait := parse_trailers(match[0]).mfc_after):
            value = f"{value}, not before {words.day(commit.at + wait)}"
        found.append((name, value))
    return found


def reviews(commit: RevisionDocument) -> dict[str, str]:
    """The reviews that a commit names, each with its address."""
    return {
        number: f"{_REVIEWS}{number}"
        for name, value in commit.trailers
        if name == "Differential Revision"
        for number in _REVIEW.findall(value)
    }


def unit(document: ChangeDocument) -> str:
    """Unit of the leading scenario."""
    name = metric_of(document.lead).unit
    return "packets per second" if name == "pps" else name


def block(document: ChangeDocument) -> str:
    """The leading scenario as `ministat -s` shows it, raw numbers; empty with too few boots."""
    lead = next(
        (effect for effect in document.differences if effect.scenario == document.lead), None
    )
    if lead is None:
        boots = [list(document.numbers(document.lead, revision)) for revision in sides(document)]
    else:
        boots = list(latest(document, lead))
    if min(map(len, boots)) < POINTS_MIN:
        return ""
    names = [words.clean(document.label(revision))[:_NAME_MAX] for revision in sides(document)]
    return ministat(list(zip(names, boots, strict=True)))


def remark(document: ChangeDocument) -> str:
    """Explanation if ministat and the verdict seem to disagree; else empty."""
    text = block(document)
    if not text:
        return ""
    proven = UNPROVEN not in text
    if proven and document.outcome == "not-reproduced":
        return (
            "ministat reports a difference between these two kernels. Kernel images differ a "
            "little in speed without a reason in their sources; the search accounts for that, "
            "ministat does not."
        )
    if not proven and document.differences and document.outcome != "not-confirmed":
        return ASSUMES_NORMAL
    return ""


def steps(document: ChangeDocument) -> list[StepDocument]:
    """The informative steps: boots, and kernels without a boot."""
    return [
        step
        for step in document.steps
        if step.stage == "trial" or step.revision in document.skipped
    ]


def measured_on(document: ChangeDocument) -> str:
    """Testbeds of the search, unless it used its own alone."""
    names = words.listing(document.testbeds)
    several = len(document.testbeds) > 1
    return f"{names}; rates and ministat are of {document.shown}" if several else names


def path(document: ChangeDocument) -> list[tuple[str, str, str, str]]:
    """Tested revisions, in the order of their first trial.

    Each has its label, its boots, its change against the good end, and its mean rate, or the
    reason without one.
    """
    by_revision: dict[str, list[StepDocument]] = {}
    for step in steps(document):
        by_revision.setdefault(step.revision, []).append(step)
    apart = _apart(document)
    level = metric_of(document.lead).level
    rates = {
        revision: [
            level(step.pps) - apart[step.testbed]
            for step in found
            if step.pps is not None and step.testbed in apart
        ]
        for revision, found in by_revision.items()
    }
    good = rates.get(document.good.revision)
    stops = []
    for revision, found in by_revision.items():
        stops.append(_stop(document, found[-1], rates[revision], good))
        reason = f"same kernel as {document.label(revision)}"
        stops += [
            (document.label(side), "", "", reason)
            for side, measured in document.stand_ins.items()
            if measured == revision
        ]
    return stops


def _apart(document: ChangeDocument) -> dict[str, float]:
    """Offset of each testbed from the displayed one at the good end, as an ln ratio."""
    reference = document.shown or document.testbed
    found: dict[str, list[float]] = {}
    for step in steps(document):
        if step.revision == document.good.revision and step.pps is not None:
            found.setdefault(step.testbed, []).append(metric_of(document.lead).level(step.pps))
    means = {name: math.fsum(seen) / len(seen) for name, seen in found.items()}
    own = means.get(reference)
    apart = {} if own is None else {name: mean - own for name, mean in means.items()}
    return {**apart, reference: 0.0}


def _stop(
    document: ChangeDocument, last: StepDocument, rates: list[float], good: list[float] | None
) -> tuple[str, str, str, str]:
    label = document.label(last.revision)
    if not rates:
        why = document.skipped.get(last.revision, last.result)
        return label, "", "", words.reason(why)
    mean = math.fsum(rates) / len(rates)
    against = ""
    if good and rates is not good:
        against = words.percent(mean - math.fsum(good) / len(good), document.lead)
    boots = words.count(len(rates), "boot")
    return label, boots, against, words.level(mean, document.lead)


def marks(document: ChangeDocument) -> dict[str, str]:
    """By revision: its latest mark by a user."""
    return {one.revision: str(one) for one in document.marks}


def labelled(document: ChangeDocument, texts: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Rows of label and text, from texts by revision."""
    return words.cleaned((document.label(name), text) for name, text in texts.items())


def subjects(document: ChangeDocument) -> dict[str, str]:
    """By revision: subjects of remaining candidates; of several verified commits with authors."""
    if document.outcome != "several":
        found = {name: document.commit(name) for name in document.suspects}
        return {name: one.subject if one else "" for name, one in found.items()}
    verified = {one.revision: document.commit(one.revision) for one in document.culprits}
    return {name: f"{one.subject} ({one.author})" if one else "" for name, one in verified.items()}


def crashes(document: ChangeDocument) -> list[tuple[str, str, str]]:
    """Kernels that panicked under load: label, scenario, message."""
    return [
        (document.label(one.revision), document.title(one.scenario), words.reason(one.why))
        for one in document.failures
        if one.scenario
    ]


def trend(document: ChangeDocument) -> list[tuple[str, str, str, str]]:
    """The latest revisions up to the change and a few after it; empty with fewer than three.

    Columns are day, label, rate, and a mark between the slowest and the fastest of these lines. A
    rule before the first revision with the change names it, and the verified commit if any.
    """
    levels = document.levels
    step = _first_slow(document, [level.revision for level in levels])
    end = len(levels) if step is None else min(step + _AFTER, len(levels))
    shown = levels[max(end - _TREND, 0) : end]
    if len(shown) < _TREND_MIN:
        return []
    means = [metric_of(document.lead).level(level.pps) for level in shown]
    low, wide = min(means), (max(means) - min(means)) or 1.0
    published = document.differences
    change = words.percent(published[0].ln_ratio, published[0].scenario) if published else "change"
    culprit = next((document.label(one.revision) for one in document.culprits), "")
    lines = []
    for place, (level, mean) in enumerate(zip(shown, means, strict=True), end - len(shown)):
        day, label = words.day(level.at), words.clean(level.label)
        if place == step:
            what = words.clean(culprit) or "-" * len(label)
            lines.append(("-" * len(day), what, change, "-" * _MARKS))
        mark = " " * round((mean - low) / wide * (_MARKS - 1)) + "*"
        lines.append((day, label, words.level(mean, document.lead), mark))
    return lines


def _first_slow(document: ChangeDocument, names: list[str]) -> int | None:
    """Place of the first level with the change: of a verified commit, or else of the bad end."""
    order = {one.commit.revision: place for place, one in enumerate(document.candidates)}
    named = [order[one.revision] for one in document.culprits if one.revision in order]
    after = named[0] if named else order.get(document.bad.revision, len(order))
    found = [place for place, name in enumerate(names) if order.get(name, -1) >= after]
    if found:
        return found[0]
    return names.index(document.good.revision) + 1 if document.good.revision in names else None
