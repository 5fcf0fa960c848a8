"""Mails about alerts: confirmed drop, result of the search, change of state, and failures."""

from __future__ import annotations

from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import Effect, Unfinished
from netbisect.reports.mail import opening
from netbisect.reports.model.changes import ChangeDocument
from netbisect.reports.render import summary, words
from netbisect.reports.render.templating import environment


def mail(document: ChangeDocument) -> Mail:
    """Mail about a confirmed drop or, in its thread, about the result of its search."""
    name = "mail.txt" if document.outcome in summary.UNDECIDED else "outcome.txt"
    text = environment.get_template(name).render(
        document=document,
        opening=opening.first_lines(document),
        place=_place(document),
    )
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
