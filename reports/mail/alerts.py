"""Mails about alerts: confirmed drop, result of the search, change of state, and failures."""

from __future__ import annotations

from typing import Any

from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import Effect, Unfinished
from netbisect.reports.mail import opening
from netbisect.reports.model.changes import ChangeDocument
from netbisect.reports.model.types import HASH_LENGTH, RevisionDocument
from netbisect.reports.render import summary, words
from netbisect.reports.render.templating import environment

_LINES_MAX = 12
"""Maximum lines of a list in a mail; the page has all."""
_ROWS_MAX = 10
"""Maximum lines of the table of effects."""


def mail(document: ChangeDocument) -> Mail:
    """Mail about a confirmed drop or, in its thread, about the result of its search."""
    name = "mail.txt" if document.outcome in summary.UNDECIDED else "outcome.txt"
    text = environment.get_template(name).render(_view(document))
    return Mail(opening.subject(document), text)


def trouble(job: NightlyJob | CompareJob, result: Unfinished) -> Mail:
    """Mail about a night or a confirmation without a result."""
    if isinstance(job, NightlyJob):
        what, revisions = "the night", {"revision": job.revision}
    else:
        what, revisions = "the confirmation", {"good": job.good, "bad": job.bad}
    headline = f"{what[0].upper()}{what[1:]} ended without a result: {words.reason(result.why)}."
    place = words.cleaned([("branch", job.branch), ("testbed", job.testbed), *revisions.items()])
    text = environment.get_template("trouble.txt").render(headline=headline, place=place)
    subject = f"[netbisect] {job.branch} {job.testbed}: {what} has no result"
    return Mail(words.clean(subject), text)


def change(number: int, now: str, place: str, effect: Effect, *, who: str, why: str) -> str:
    """Mail in the thread of an alert about its new state.

    `now` is the state from `words.state`; `place` is leading scenario, testbed and branch.
    """
    facts = words.cleaned(
        [("where", place), ("change", words.change(effect)), ("why", why), ("who", who)]
    )
    return environment.get_template("change.txt").render(
        headline=f"Alert {number} is {now}.", facts=facts, number=number
    )


def _view(document: ChangeDocument) -> dict[str, Any]:
    return {
        "document": document,
        "opening": opening.first_lines(document),
        # The first lines are complete if the search is running or has found one commit.
        "headline": ""
        if document.outcome in {"culprit", *summary.UNDECIDED}
        else words.clean(summary.headline(document)),
        "place": _place(document),
        "suspects": _suspects(document),
        "rows_most": 1 + _ROWS_MAX,
        "marks": words.cleaned(
            (document.label(revision), mark) for revision, mark in summary.marks(document).items()
        ),
        "next": _next(document),
        "commit_line": commit_line,
        "most": _LINES_MAX,
        "rest": " in the report",
    }


def _next(document: ChangeDocument) -> str:
    match document.outcome:
        case "running" | "confirmed":
            commits = words.count(len(document.candidates), "commit")
            return (
                f"A search among {commits} has started. Its result follows as a reply to this "
                "message."
            )
        case "culprit" | "several":
            return (
                "The level since this commit is the new baseline. The digest reports the return of "
                "the earlier level."
            )
        case "not-reproduced":
            return "The alert is withdrawn. Another drop opens a new alert."
        case _:
            return (
                "The alert stays open without a commit. The digest reports the return of the "
                "earlier level."
            )


def _place(document: ChangeDocument) -> list[tuple[str, str]]:
    hardware = f" ({document.hardware})" if document.hardware else ""
    good, bad, commits = document.good, document.bad, len(document.candidates)
    facts = {
        "branch": document.branch,
        "testbed": f"{document.testbed}{hardware}",
        "measured on": summary.measured_on(document),
        "last good": f"{document.label(good.revision)} of {words.day_known(good.at)}",
        "first bad": f"{document.label(bad.revision)} of {words.day_known(bad.at)}",
        "between": f"{commits} commits, including the bad end" if commits > 1 else "",
    }
    return [(name, words.clean(text)) for name, text in facts.items() if text]


def commit_line(document: ChangeDocument, commit: RevisionDocument) -> str:
    """Hash, number, day and author of a commit."""
    day = words.day_known(commit.at)
    number = f"{commit.short} of {document.branch}"
    return words.clean(f"{commit.revision[:HASH_LENGTH]}, {number}, {day}, {commit.author}")


def _suspects(document: ChangeDocument) -> list[tuple[str, ...]]:
    return words.cleaned(
        (document.label(name), one.subject if (one := document.commit(name)) else "")
        for name in document.suspects
    )
