"""Queries the Case of a drop from the ledger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from netbisect.bisect.model.entities import (
    Boot,
    Commit,
    Conditions,
    Fact,
    Failure,
    Kernel,
    Sample,
    Stage,
)
from netbisect.bisect.model.evidence import Evidence
from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Result,
    SeveralCulprits,
)
from netbisect.bisect.model.revision_key import OVERLAY_MARK
from netbisect.reports.model.case import Attempt, Case, Ending, KernelFailure, Links
from netbisect.reports.render import summary, words
from netbisect.steps.policy.retests import chain
from netbisect.steps.policy.unaffected import unaffected_testbeds
from netbisect.steps.queries.lab_context import LabContext
from netbisect.store.db.records import Action, ActionStage, Alert, JobRecord
from netbisect.store.ledger import Ledger

_OF_THE_KERNEL = (Stage.BUILD, Stage.BOOT)
"""Stages at which a failure concerns the revision."""
_FOLLOWED = 90 * 86400.0
"""Seconds after the end of an alert in which its culprit is followed."""
_UNKNOWN_SUBJECT = "(not in the tree that is watched)"


def numbered(case: Case, lab: LabContext, alert: int) -> Case:
    """The case of an alert, with its number and the address of its page."""
    return replace(case, number=alert, links=replace(case.links, alert=lab.alert_link(alert)))


def alert_case(
    lab: LabContext,
    ledger: Ledger,
    alert: Alert,
    now: float,
    finding: Result | None = None,
) -> Case | None:
    """The case of an alert, for its mails and its page; None without a retest.

    Other testbeds, and what becomes of the culprit, are looked at as long as the alert is open,
    and some time after.

    Args:
        lab: Names, hardware and links.
        ledger: The ledger.
        alert: The alert.
        now: Seconds since the epoch.
        finding: Of its search, if that is not in the ledger yet.
    """
    last = alert.bisection or alert.comparison
    if last is None:
        return None
    record = ledger.jobs.get(last)
    finding = finding or record.finding
    if isinstance(finding, Confirmed):
        finding = Confirmed(alert.retest)
    end = math.inf if alert.closed_at is None else alert.closed_at
    followed = now < end + _FOLLOWED
    case = case_in(lab, ledger, record, finding, until=end if followed else None)
    case = numbered(seen_from(lab, ledger, alert, record, case), lab, alert.id)
    found = summary.culprits(case)
    culprit = found[0].revision if found and followed else ""
    return replace(
        case,
        history=tuple(ledger.alerts.changes(alert.id)),
        stable=lab.stable(culprit or None, alert.branch, case.label, now),
        diffstat=lab.diffstat(culprit),
        committer=lab.committer(culprit),
        profiles=lab.profiles(ledger, record),
    )


def case_in(
    lab: LabContext,
    ledger: Ledger,
    record: JobRecord,
    finding: Result | None,
    commits: Sequence[Commit] = (),
    until: float | None = math.inf,
) -> Case:
    """The case of a comparison or of a bisection.

    Args:
        lab: Names, hardware and links.
        ledger: The ledger.
        record: A comparison, or the bisection that followed from one.
        finding: The answer to `asked`, which need not be in the ledger yet; of several
            comparisons about one change, their common answer.
        commits: Those after the good end, to the bad one, where a comparison cannot tell them.
        until: Up to when other testbeds are looked at for what did not move, seconds since the
            epoch; None: they are not.

    The case has the number 0 and links to no page until its alert has a number.
    """
    job = record.job
    assert isinstance(job, CompareJob | BisectJob)
    before = _parent(ledger, record) if isinstance(job, BisectJob) else record
    pairs = chain(ledger, before) if before is not None else []
    confirmed = finding
    if isinstance(job, CompareJob):
        record = pairs[0]  # its ends are those of the alert
        job = record.job
        assert isinstance(job, CompareJob)
        numbers = [one.id for one in pairs]
    else:
        numbers = [*(one.id for one in pairs), record.id]
        confirmed = _confirmed(ledger, pairs)
    bad = job.bad if isinstance(job, CompareJob) else job.candidates[-1].revision
    commits = tuple(commits) or _commits(ledger, job)
    done = [
        (decision, ledger.facts.of_action(decision.id))
        for number in numbers
        for decision in ledger.actions.of_job(number)
    ]
    attempts = [
        attempt
        for decision, facts in done
        for attempt in (_attempt(decision, facts, job.lead), *_built_ahead(decision, facts))
    ]
    evidence = lab.evidence(ledger, record)
    ends = _compared(job, finding)
    sides = {end for pair in ends for end in pair}
    testbeds, shown = _places(job, evidence, sides)
    good, last = _commit(ledger, job.good), _commit(ledger, bad)
    effect = confirmed.effects[0].ln_ratio if isinstance(confirmed, Confirmed) else 0.0
    series = lab.series(ledger, job)
    revisions = {reading.revision for reading in evidence.observations} | {job.good, bad}
    revisions |= {commit.revision for commit in commits}
    revisions |= {level.revision for levels in series.values() for level in levels}
    known = ledger.commits.find(revisions)
    return Case(
        number=0,
        branch=job.branch,
        testbed=job.testbed,
        hardware=lab.hardware(job.testbed),
        titles={name: lab.title(name) for name in job.scenarios},
        lead=job.lead,
        good=good,
        bad=last,
        commits=commits,
        confirmed=confirmed if isinstance(confirmed, Confirmed) else None,
        pps=_pps(_of(evidence, shown), job.scenarios, sides),
        series=series,
        labels={name: known[name].label for name in sorted(known)},
        finding=finding if isinstance(finding, Ending) else None,
        attempts=tuple(replace(attempt, seq=seq) for seq, attempt in enumerate(attempts, 1)),
        skipped=evidence.skipped,
        marks={revision: str(mark) for revision, mark in evidence.marks.items()},
        failures=_failures([fact for _, facts in done for fact in facts]),
        cost=ledger.costs.of_jobs(numbers),
        conditions={
            **_conditions([fact for _, facts in done for fact in facts], job.lead),
            **_overlays(evidence),
        },
        links=Links(commit=lab.commit_link),
        command=lab.command(job.testbed, evidence.kernels, ends[0]),
        unmoved=unaffected_testbeds(
            ledger, lab.title, (job.branch, job.testbed), (good, last), effect, until
        )
        if effect and until is not None
        else (),
        testbeds=testbeds,
        stand_ins=_stand_ins(evidence, attempts, sides),
        shown=shown,
    )


def seen_from(lab: LabContext, ledger: Ledger, alert: Alert, record: JobRecord, case: Case) -> Case:
    """The case of a search as one of its alerts sees it, which may be of another testbed.

    Args:
        lab: Names, hardware and links.
        ledger: The ledger.
        alert: One that waits for the search, or did.
        record: The search, or a comparison.
        case: Of the search, on its own testbed.
    """
    job = record.job
    if not isinstance(job, BisectJob) or alert.testbed == job.testbed:
        return case
    return replace(
        case,
        testbed=alert.testbed,
        hardware=lab.hardware(alert.testbed),
        confirmed=Confirmed(alert.retest),
        series=lab.series(ledger, replace(job, testbed=alert.testbed)),
        testbeds=case.testbeds or (job.testbed,),
        shown=case.shown or job.testbed,
    )


def _confirmed(ledger: Ledger, pairs: Sequence[JobRecord]) -> Result | None:
    """The confirmed effects of the comparisons before a search."""
    if not pairs:
        return None
    alert = ledger.alerts.of_job(pairs[-1].id)
    return Confirmed(alert.retest) if alert is not None else pairs[0].finding


def _parent(ledger: Ledger, record: JobRecord) -> JobRecord | None:
    return ledger.jobs.get(record.parent) if record.parent is not None else None


def _commit(ledger: Ledger, revision: str) -> Commit:
    known = ledger.commits.get(revision)
    return known or Commit(revision, 0, _UNKNOWN_SUBJECT, "", "", "", 0.0)


def _commits(ledger: Ledger, job: CompareJob | BisectJob) -> tuple[Commit, ...]:
    if isinstance(job, BisectJob):
        return tuple(_commit(ledger, candidate.revision) for candidate in job.candidates)
    return (_commit(ledger, job.bad),)


def _compared(job: CompareJob | BisectJob, finding: Result | None) -> tuple[tuple[str, str], ...]:
    """The compared revisions: each culprit with its parent, the earlier first, or the ends."""
    if isinstance(finding, Culprit):
        return ((finding.parent, finding.revision),)
    if isinstance(finding, SeveralCulprits):
        return tuple((one.parent, one.revision) for one in finding.culprits)
    if isinstance(job, CompareJob):
        return ((job.good, job.bad),)
    return ((job.good, job.candidates[-1].revision),)


def _stand_ins(evidence: Evidence, attempts: Sequence[Attempt], sides: set[str]) -> dict[str, str]:
    """By side that was not booted: the first one booted with the same kernel image."""
    image = {revision: kernel.identity for revision, kernel in evidence.kernels.items()}
    booted = list(dict.fromkeys(one.revision for one in attempts if one.stage == "trial"))
    return {
        side: twin
        for side in sorted(sides.difference(booted) & image.keys())
        if (twin := next((one for one in booted if image.get(one) == image[side]), ""))
    }


def _places(
    job: CompareJob | BisectJob, evidence: Evidence, sides: set[str]
) -> tuple[tuple[str, ...], str]:
    """The testbeds that measured for a search, unless its own did alone; whose boots to show.

    That is one with boots of all the sides: rates of several testbeds do not compare.
    """
    fresh = Counter(reading.testbed for reading in evidence.observations if reading.fresh)
    known = job.testbeds if isinstance(job, BisectJob) else ()
    used = tuple(name for name in known if fresh[name])
    if used in {(), (job.testbed,)}:
        return (), ""
    image = {revision: kernel.identity for revision, kernel in evidence.kernels.items()}

    def fewest(name: str) -> int:
        own = [
            reading
            for reading in evidence.observations
            if reading.fresh and reading.testbed == name
        ]
        return min(
            sum(one.revision == side or one.identity == image.get(side) for one in own)
            for side in sides
        )

    return used, max(used, key=fewest)


def _of(evidence: Evidence, testbed: str) -> Evidence:
    """The fresh readings of one of several testbeds; all if there is only one."""
    if not testbed:
        return evidence
    own = tuple(one for one in evidence.observations if one.fresh and one.testbed == testbed)
    return replace(evidence, observations=own)


def _pps(
    evidence: Evidence, scenarios: Sequence[str], sides: set[str]
) -> dict[str, dict[str, list[float]]]:
    """By scenario and revision; a side has the boots of all revisions with its very image."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in scenarios}
    image = {revision: kernel.identity for revision, kernel in evidence.kernels.items()}
    for reading in evidence.observations:
        twins = {side for side in sides if image.get(side) == reading.identity}
        for name, value in reading.ln_pps.items():
            for revision in {reading.revision, *twins} if name in found else ():
                found[name].setdefault(revision, []).append(metric_of(name).number(value))
    return found


def _attempt(decision: Action, facts: Sequence[Fact], lead: str) -> Attempt:
    """Result of a decision, without kernels that were built ahead."""
    outcome, seconds = decision.note or str(decision.outcome or "under way"), 0.0
    runs: list[float] = []
    for fact in facts:
        match fact:
            case Kernel(revision=revision) | Failure(revision=revision) if (
                revision != decision.revision
            ):
                continue
            case Kernel():
                outcome = _built(fact)
            case Boot():
                outcome = "booted"
            case Sample(scenario=scenario) if scenario == lead and fact.valid:
                runs.append(metric_of(lead).level(fact.pps))
            case Failure(why=why):
                outcome = why
        if not isinstance(fact, Conditions):
            seconds += fact.seconds
    return Attempt(
        seq=0,
        stage="kernel" if decision.stage is ActionStage.KERNEL else "trial",
        revision=decision.revision,
        why=decision.why,
        outcome=outcome,
        belief=decision.belief,
        ln_pps=math.fsum(runs) / len(runs) if runs else None,
        at=decision.intended_at,
        seconds=seconds,
        testbed="" if decision.stage is ActionStage.KERNEL else decision.target,
    )


def _built_ahead(decision: Action, facts: Sequence[Fact]) -> Iterator[Attempt]:
    """The kernels built ahead, successfully or not."""
    for fact in facts:
        if isinstance(fact, Kernel | Failure) and fact.revision != decision.revision:
            yield Attempt(
                seq=0,
                stage="kernel",
                revision=fact.revision,
                why="built ahead, while the search waited",
                outcome=_built(fact) if isinstance(fact, Kernel) else fact.why,
                belief=None,
                ln_pps=None,
                at=fact.at,
                seconds=fact.seconds,
            )


def _failures(facts: Sequence[Fact]) -> tuple[KernelFailure, ...]:
    """Failures of kernels; a second attempt with the same failure is left out."""
    found: dict[tuple[str, str, str], KernelFailure] = {}
    for fact in facts:
        if isinstance(fact, Failure) and fact.log.strip() and fact.stage in _OF_THE_KERNEL:
            # Goes down under load in the stage of the boot, which is what ended.
            key = (fact.revision, fact.scenario, fact.why)
            found.setdefault(key, KernelFailure(*key, fact.log))
    return tuple(found.values())


def _conditions(facts: Sequence[Fact], lead: str) -> dict[str, str]:
    for fact in reversed(facts):
        if isinstance(fact, Conditions) and fact.scenario == lead:
            return fact.values
    return {}


def _built(kernel: Kernel) -> str:
    fixes = " and ".join(kernel.config.split(OVERLAY_MARK)[1:])
    return f"built {kernel.version}" + (f" with {fixes}" if fixes else "")


def _overlays(evidence: Evidence) -> dict[str, str]:
    """By fix: how many kernels it was applied to; the attempts say which."""
    kernels = evidence.kernels.values()
    applied = Counter(name for one in kernels for name in one.config.split(OVERLAY_MARK)[1:])
    return {
        f"with {name} applied": f"{count} of {words.count(len(kernels), 'kernel')}"
        for name, count in sorted(applied.items())
    }
