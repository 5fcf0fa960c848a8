"""Queries of the documents of comparisons and bisections."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from netbisect.bisect.model import serialization
from netbisect.bisect.model.alert_change import change_of
from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Drift,
    Effect,
    NotConfirmed,
    NotReproduced,
    Posterior,
    Result,
    SeveralCulprits,
    Suspects,
    culprits_of,
)
from netbisect.reports.model.changes import (
    BisectionDocument,
    CandidateDocument,
    Chances,
    Compared,
    ComparisonDocument,
    Searched,
    StepDocument,
    VerifiedCommit,
)
from netbisect.reports.model.types import Difference
from netbisect.reports.render import words
from netbisect.steps.policy.unaffected import unaffected_testbeds
from netbisect.steps.queries import change_evidence
from netbisect.steps.queries.lab_context import LabContext, known_commit, known_commits
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Alert, JobRecord
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.alert_changes import SERVICE

Change: TypeAlias = ComparisonDocument | BisectionDocument

_SEARCHED: Mapping[type[object], Searched] = {
    type(None): "running",
    Culprit: "culprit",
    SeveralCulprits: "several",
    Suspects: "suspects",
    Drift: "drift",
    NotReproduced: "not-reproduced",
}
_FOLLOWED = 90 * 86400.0
"""Seconds after the end of an alert in which its culprit is followed."""


def comparison(
    lab: LabContext,
    ledger: Ledger,
    record: JobRecord,
    *,
    result: Result | None = None,
    commits: Sequence[Commit] = (),
    until: float | None = None,
) -> ComparisonDocument:
    """The document of a comparison.

    `result` is for one that is not in the ledger yet; `commits` are those after the good end, up to
    the bad one, if known; `until` is the latest time of the measurements of unaffected testbeds,
    seconds since the epoch, or None to leave these out.

    Raises StoreError if it is another job.
    """
    job = record.job
    if not isinstance(job, CompareJob):
        raise StoreError(
            f"job {record.id} is not a comparison but a {serialization.tag_of(record.job)}"
        )
    result = result or record.result
    effects = result.effects if isinstance(result, Confirmed | NotConfirmed) else ()
    retest = tuple(map(Difference.of, effects))
    commits = tuple(commits) or (known_commit(ledger, job.bad),)
    outcome: Compared = "running" if result is None else "unfinished"
    if isinstance(result, Confirmed | NotConfirmed):
        outcome = "confirmed" if isinstance(result, Confirmed) else "not-confirmed"
    return ComparisonDocument(
        **_shared(lab, ledger, record, None, result, [(one, 0.0) for one in commits]),
        outcome=outcome,
        differences=retest,
        retest=retest,
        boots=change_evidence.boots_of(ledger.facts.of_job(record.id)),
        unaffected=_unaffected(lab, ledger, job, effects, until),
    )


def bisection(
    lab: LabContext,
    ledger: Ledger,
    record: JobRecord,
    *,
    result: Result | None = None,
    until: float | None = None,
    alert: Alert | None = None,
) -> BisectionDocument:
    """The document of a bisection; see `comparison`.

    With an alert, which may be of a peer's testbed, it is the search as that alert sees it.

    Raises StoreError if it is another job.
    """
    job = record.job
    if not isinstance(job, BisectJob):
        raise StoreError(
            f"job {record.id} is not a bisection but a {serialization.tag_of(record.job)}"
        )
    parent = ledger.jobs.get(record.parent) if record.parent is not None else None
    retest = parent if parent is not None and isinstance(parent.job, CompareJob) else None
    result = result or record.result
    confirmed = _confirmed(ledger, retest)
    weights = {one.revision: one.weight for one in job.candidates}
    commits = list(zip(known_commits(ledger, weights), weights.values(), strict=True))
    culprits = culprits_of(result)
    unaffected = _unaffected(lab, ledger, job, confirmed, until)
    peer = alert is not None and alert.testbed != job.testbed
    if alert is not None and peer:
        confirmed = alert.retest
    document = BisectionDocument(
        **_shared(lab, ledger, record, retest, result, commits),
        outcome=_SEARCHED.get(type(result), "unfinished"),
        differences=tuple(map(Difference.of, change_of(confirmed, result).effects)),
        retest=tuple(map(Difference.of, confirmed)),
        culprits=tuple(
            VerifiedCommit(
                revision=one.revision,
                parent=one.parent,
                chance=max(one.chance, one.posterior.chances.get(one.revision, 0.0)),
                differences=tuple(map(Difference.of, one.effects)),
            )
            for one in culprits
        ),
        suspects=result.revisions if isinstance(result, Suspects) else (),
        marks=tuple(ledger.marks.of_search(record.id)),
        **lab.source(culprits[0].revision if culprits else "", job.testbed),
        unaffected=unaffected,
    )
    if alert is None or not peer:
        return document
    return replace(
        document,
        testbed=alert.testbed,
        hardware=lab.hardware(alert.testbed),
        levels=lab.levels(ledger, replace(job, testbed=alert.testbed)),
        testbeds=document.testbeds or (job.testbed,),
        shown=document.shown or job.testbed,
    )


def of_job(lab: LabContext, ledger: Ledger, record: JobRecord) -> Change:
    """The document of a comparison or a bisection. Raises StoreError if it is another job."""
    make = bisection if isinstance(record.job, BisectJob) else comparison
    return make(lab, ledger, record)


def of_alert(
    lab: LabContext,
    ledger: Ledger,
    alert: Alert,
    now: float,
    result: Result | None = None,
) -> Change | None:
    """The latest search or comparison of an alert, as seen from its testbed; None without one.

    Unaffected testbeds and backports are followed until some time after the end of the alert.
    `now` is in seconds since the epoch; `result` that of the search, if not in the ledger yet.
    """
    last = alert.bisection or alert.comparison
    if last is None:
        return None
    record = ledger.jobs.get(last)
    result = result or record.result
    end = math.inf if alert.closed_at is None else alert.closed_at
    followed = now < end + _FOLLOWED
    until = end if followed else None
    found: Change
    if isinstance(record.job, BisectJob):
        found = bisection(lab, ledger, record, result=result, until=until, alert=alert)
    else:
        if isinstance(result, Confirmed):
            result = Confirmed(alert.retest)
        found = comparison(lab, ledger, record, result=result, until=until)
    culprit = found.culprits[0].revision if found.culprits and followed else None
    return replace(
        found,
        alert=alert.id,
        address=lab.alert_link(alert.id),
        backports=lab.stable(culprit, alert.branch, found.label, now),
    )


def _shared(
    lab: LabContext,
    ledger: Ledger,
    record: JobRecord,
    retest: JobRecord | None,
    result: Result | None,
    commits: Sequence[tuple[Commit, float]],
) -> dict[str, Any]:
    """Fields that a comparison and a bisection have in common.

    `retest` is the comparison before a search, whose steps are shown, too; `commits` are the
    candidates, oldest first, with their prior weights.
    """
    job = record.job
    assert isinstance(job, CompareJob | BisectJob)
    records = [record] if retest is None else [retest, record]
    done = [
        (action, ledger.facts.of_action(action.id))
        for one in records
        for action in ledger.actions.of_job(one.id)
    ]
    facts = [fact for _, of_action in done for fact in of_action]
    steps = [
        step
        for action, of_action in done
        for step in (
            change_evidence.step_of(action, of_action, job.lead, lab.why_waiting(ledger, action)),
            *change_evidence.built_ahead(action, of_action),
        )
    ]
    evidence = lab.evidence(ledger, record)
    ends = change_evidence.compared(job, result)
    sides = {end for pair in ends for end in pair}
    testbeds, shown = change_evidence.places(job, evidence, sides)
    levels = lab.levels(ledger, job)
    bad = known_commit(ledger, job.bad)
    revisions = {job.good, bad.revision, *(one.revision for one, _ in commits)}
    revisions |= {one.revision for one in evidence.observations}
    revisions |= {one.revision for one in steps} | {one.revision for one in levels}
    known = ledger.commits.find(revisions)
    alert = ledger.alerts.of_job(record.id)
    posterior = _posterior(result, steps)
    return {
        "number": record.id,
        "opened_at": record.opened_at,
        "closed_at": record.closed_at,
        "alert": alert.id if alert is not None else None,
        "branch": job.branch,
        "testbed": job.testbed,
        "hardware": lab.hardware(job.testbed),
        "lead": job.lead,
        "scenarios": job.scenarios,
        "titles": {name: lab.title(name) for name in job.scenarios},
        "good": lab.revision(known_commit(ledger, job.good)),
        "bad": lab.revision(bad),
        "candidates": tuple(
            CandidateDocument(
                lab.revision(one),
                weight,
                posterior.chances.get(one.revision) if posterior else None,
            )
            for one, weight in commits
        ),
        "labels": {name: known[name].label for name in sorted(known)},
        "sentence": words.sentence(result, ledger.commits.label, lab.title)
        if result is not None
        else "No result yet.",
        "unsearched": _unsearched(ledger, alert),
        "chances": Chances(posterior.none, posterior.two, posterior.drift) if posterior else None,
        "steps": tuple(replace(step, place=place) for place, step in enumerate(steps, 1)),
        "spent": ledger.costs.of_jobs([one.id for one in records]),
        "pps": change_evidence.pps(
            change_evidence.of_testbed(evidence, shown), job.scenarios, sides
        ),
        "levels": levels,
        "skipped": evidence.skipped,
        "failures": change_evidence.failures(facts),
        "conditions": {
            **change_evidence.conditions(facts, job.lead),
            **change_evidence.overlays(evidence),
        },
        "command": lab.command(job.testbed, evidence.kernels, ends[0]),
        "testbeds": testbeds,
        "shown": shown,
        "stand_ins": change_evidence.stand_ins(evidence, steps, sides),
    }


def _unsearched(ledger: Ledger, alert: Alert | None) -> str:
    """Why there is no search for the commit of an alert; "" if there is one, or none is due."""
    if alert is None or alert.bisection is not None:
        return ""
    ended = (SERVICE, AlertState.NO_CULPRIT)
    found = [one.what for one in ledger.alerts.changes(alert.id) if (one.who, one.state) == ended]
    return found[-1] if found else ""


def _unaffected(
    lab: LabContext,
    ledger: Ledger,
    job: CompareJob | BisectJob,
    effects: Sequence[Effect],
    until: float | None,
) -> tuple[str, ...]:
    if not effects or until is None:
        return ()
    ends = known_commit(ledger, job.good), known_commit(ledger, job.bad)
    place = job.branch, job.testbed
    return unaffected_testbeds(ledger, lab.title, place, ends, effects[0].ln_ratio, until)


def _posterior(result: Result | None, steps: Sequence[StepDocument]) -> Posterior | None:
    """Posterior of the result, or of the last step."""
    posteriors = [one.posterior for one in steps if one.posterior is not None]
    found: Posterior | None = getattr(result, "posterior", None)
    return found or (posteriors[-1] if posteriors else None)


def _confirmed(ledger: Ledger, retest: JobRecord | None) -> tuple[Effect, ...]:
    """The confirmed effects of the comparison before a search."""
    if retest is None:
        return ()
    alert = ledger.alerts.of_job(retest.id)
    if alert is not None:
        return alert.retest
    return retest.result.effects if isinstance(retest.result, Confirmed) else ()
