"""Mails about alerts: confirmed drop, result of the search, change of state, and failures."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import (
    Culprit,
    Effect,
    NotReproduced,
    SeveralCulprits,
    Suspects,
    Unfinished,
)
from netbisect.reports.mail import opening
from netbisect.reports.model.case import HASH_LENGTH, Case
from netbisect.reports.render import summary, words
from netbisect.reports.render.templating import environment

_LINES_MAX = 12
"""Maximum lines of a list in a mail; the page has all."""
_ROWS_MAX = 10
"""Of the table of effects."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A plain-text mail of at most 76 columns; addresses stand on separate lines."""

    subject: str
    text: str


def alert(case: Case) -> Mail:
    """Mail about a confirmed drop, before the search.

    Raises:
        ValueError: No drop was confirmed.
    """
    if case.confirmed is None:
        raise ValueError(f"case {case.number}: no drop was confirmed, so there is no alert")
    return Mail(opening.subject(case), environment.get_template("mail.txt").render(_view(case)))


def outcome(case: Case) -> Mail:
    """Mail about the result of a search, in the thread of the alert if there was one.

    Raises:
        ValueError: The search is running.
    """
    if case.finding is None:
        raise ValueError(f"case {case.number}: the search has not ended")
    text = environment.get_template("outcome.txt").render(_view(case))
    return Mail(opening.subject(case), text)


def trouble(job: NightlyJob | CompareJob, finding: Unfinished) -> Mail:
    """Mail about a night or a confirmation without a result."""
    if isinstance(job, NightlyJob):
        what, revisions = "the night", {"revision": job.revision}
    else:
        what, revisions = "the confirmation", {"good": job.good, "bad": job.bad}
    headline = f"{what[0].upper()}{what[1:]} ended without a result: {words.reason(finding.why)}."
    place = [("branch", words.clean(job.branch)), ("testbed", words.clean(job.testbed))]
    place += [(name, words.clean(revision)) for name, revision in revisions.items()]
    text = environment.get_template("trouble.txt").render(headline=headline, place=place)
    subject = f"[netbisect] {job.branch} {job.testbed}: {what} has no result"
    return Mail(words.clean(subject), text)


def change(number: int, now: str, place: str, effect: Effect, *, who: str, why: str) -> str:
    """Mail in the thread of an alert about its new state.

    Args:
        number: Of the alert.
        now: Its state, as `words.state` says it.
        place: Its leading scenario, testbed and branch.
        effect: Announced.
        who: Author of the change.
        why: Reason given by the author.
    """
    facts = [
        ("where", words.clean(place)),
        ("change", words.change(effect)),
        ("why", words.clean(why)),
        ("who", words.clean(who)),
    ]
    return environment.get_template("change.txt").render(
        headline=f"Alert {number} is {now}.", facts=facts, number=number
    )


def _view(case: Case) -> dict[str, Any]:
    rows = summary.rows(case)
    stops = summary.path(case)
    conditions = [(words.clean(k), words.clean(v)) for k, v in case.conditions.items()]
    return {
        "case": case,
        "opening": opening.first_lines(case),
        # The first lines are complete if the search is running or has found one commit.
        "headline": ""
        if isinstance(case.finding, Culprit | None)
        else words.clean(summary.headline(case)),
        "place": _place(case),
        "culprit": _culprit(case),
        "stable": [words.clean(sentence) for sentence in case.stable],
        "suspects": _suspects(case)[:_LINES_MAX],
        "suspects_left": max(len(_suspects(case)) - _LINES_MAX, 0),
        "heading": summary.heading(case),
        "rows": [("", "before", "after", "change"), *map(astuple, rows[:_ROWS_MAX])]
        if rows
        else [],
        "rows_left": max(len(rows) - _ROWS_MAX, 0),
        "trend": _trend(case),
        "unmoved": words.clean(words.listing(list(case.unmoved))),
        "block": summary.block(case),
        "remark": summary.remark(case),
        "stops": [tuple(map(words.clean, astuple(stop))) for stop in stops[:_LINES_MAX]],
        "stops_left": max(len(stops) - _LINES_MAX, 0),
        "marks": [
            (words.clean(case.label(revision)), words.clean(mark))
            for revision, mark in case.marks.items()
        ][:_LINES_MAX],
        "next": _next(case),
        "crashes": [tuple(map(words.clean, crash)) for crash in summary.crashes(case)[:_LINES_MAX]],
        "crashes_left": max(len(summary.crashes(case)) - _LINES_MAX, 0),
        "cost": summary.cost(case),
        "conditions": conditions[:_LINES_MAX],
        "conditions_left": max(len(conditions) - _LINES_MAX, 0),
    }


def _next(case: Case) -> str:
    """The next action."""
    match case.finding:
        case None:
            commits = words.count(len(case.commits), "commit")
            return (
                f"A search among {commits} has started. Its result follows as a reply to this "
                "message."
            )
        case Culprit() | SeveralCulprits():
            return (
                "The level since this commit is the new baseline. The digest tells when the "
                "earlier level is back."
            )
        case NotReproduced():
            return "The alert is withdrawn. Another drop opens a new alert."
        case _:
            return (
                "The alert stays open without a commit. The digest tells when the earlier level "
                "is back."
            )


def _trend(case: Case) -> list[tuple[str, ...]]:
    """Columns of the trend, with a rule at the change of the level."""
    lines: list[tuple[str, ...]] = []
    for night in summary.trend(case):
        if night.step:
            what = words.clean(night.culprit) or "-" * len(night.label)
            lines.append(("-" * len(night.day), what, night.step, "-" * 20))
        lines.append((night.day, words.clean(night.label), night.rate, night.place))
    return lines


def _place(case: Case) -> list[tuple[str, str]]:
    hardware = f" ({case.hardware})" if case.hardware else ""
    ends = [("last good", case.good), ("first bad", case.bad)]
    return [
        ("branch", words.clean(case.branch)),
        ("testbed", words.clean(f"{case.testbed}{hardware}")),
        *(
            (("measured on", words.clean(several)),)
            if (several := summary.measured_on(case))
            else ()
        ),
        *(
            (name, words.clean(f"{case.label(commit.revision)} of {words.day(commit.at)}"))
            for name, commit in ends
        ),
        ("between", f"{words.count(len(case.commits), 'commit')}, including the bad end"),
    ]


def _culprit(case: Case) -> dict[str, Any] | None:
    """The commit that was verified; None unless one was."""
    if not isinstance(case.finding, Culprit):
        return None
    commit = case.commit(case.finding.revision)
    return _card(case, commit) if commit else None


def _card(case: Case, commit: Commit) -> dict[str, Any]:
    number = f"n{commit.number} of {case.branch}"
    return {
        "line": words.clean(
            f"{commit.revision[:HASH_LENGTH]}, {number}, {words.day(commit.at)}, {commit.author}"
        ),
        "subject": words.clean(commit.subject),
        "link": words.clean(case.links.to_commit(commit.revision)),
        "trailers": summary.trailers(commit),
        "diffstat": words.block(case.diffstat).rstrip(),
    }


def _suspects(case: Case) -> list[tuple[str, str]]:
    """Commits that remain, with their subjects."""
    if not isinstance(case.finding, Suspects):
        return []
    lines = []
    for revision in case.finding.revisions:
        commit = case.commit(revision)
        lines.append((case.label(revision), words.clean(commit.subject) if commit else ""))
    return lines
