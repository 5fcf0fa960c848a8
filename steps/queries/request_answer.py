"""Answers of requests, combined from the results of their jobs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netbisect.bisect.model.detection_results import DifferenceVerdict
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import BisectJob, CompareJob, Job, MeasureJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.metric import metric_of, split_settings
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Drift,
    Effect,
    MeasureResult,
    NotConfirmed,
    NotReproduced,
    Result,
    RevisionComparison,
    SeveralCulprits,
    Suspects,
    Unfinished,
)
from netbisect.reports.model.types import ComparedRevision, ComparedSetting, Difference, SecondRun
from netbisect.reports.pages import requests
from netbisect.reports.render import words
from netbisect.reports.render.ministat import POINTS_MIN
from netbisect.reports.render.words import Name
from netbisect.steps.service.numeric import effect_sizes, measurement
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import JobRecord, Request, RequestState
from netbisect.store.ledger import Ledger

REGRESSION, NO_REGRESSION = "regression", "no regression"
INCONCLUSIVE, FAILED = "inconclusive", "failed"
EXIT = {NO_REGRESSION: 0, REGRESSION: 1, INCONCLUSIVE: 2, FAILED: 3}
"""Status of `netbisect request … --wait`, by verdict."""
_ANY = 1e-9
"""ln ratio; any difference of a verified commit matters."""
_VERDICTS = {
    DifferenceVerdict.SLOWER: REGRESSION,
    DifferenceVerdict.FASTER: NO_REGRESSION,
    DifferenceVerdict.SAME: NO_REGRESSION,
    DifferenceVerdict.OPEN: INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True)
class Names:
    """Display names."""

    label: Name
    """Returns that of a revision."""
    title: Name
    """Returns that of a scenario."""


def exit_status(request: Request) -> int:
    """Exit status of a waiting command; 3 also for a cancelled request."""
    if request.state is not RequestState.ANSWERED:
        return EXIT[FAILED]
    return EXIT.get(request.verdict, EXIT[FAILED])


def answer(names: Names, parts: Sequence[JobRecord]) -> tuple[str, str]:
    """Verdict and sentence about a request; all its jobs have results."""
    last = last_of(parts)
    verdict = verdict_of(last)
    return verdict, _sentence(names, verdict, last, parts)


def folder_name(record: JobRecord) -> str:
    """Name of the folder of a measurement in that of its request."""
    return f"{record.job.testbed}-{record.run}"


def folders(settings: Settings, request: Request, parts: Sequence[JobRecord]) -> tuple[str, ...]:
    """Addresses of the netbenches folders, if there are enough boots."""
    return tuple(
        settings.request_file_address(request.id, f"{folder_name(one)}/README.md")
        for one in parts
        if isinstance(one.result, MeasureResult)
        and any(
            min(effect.good_boots, effect.bad_boots) >= POINTS_MIN
            for held in one.result.held
            for effect in held.effects
        )
    )


def news(ledger: Ledger, settings: Settings, number: int, headline: str) -> Mail:
    """The mail about a change of a request. Raises StoreError if there is no such request."""
    request = ledger.requests.get(number)
    labels = [ledger.commits.label(one) for one in request.parameters["subjects"]]
    return requests.news(number, request.kind, labels, headline, settings.request_address(number))


def last_of(parts: Sequence[JobRecord]) -> list[JobRecord]:
    """The last job by testbed and run, such as a search instead of its comparison."""
    return [*{(one.job.testbed, one.run): one for one in parts}.values()]


def verdict_of(last: Sequence[JobRecord]) -> str:
    """The worst of several verdicts."""
    found = {_verdict(one) for one in last}
    if found == {FAILED}:
        return FAILED
    for worst in (REGRESSION, INCONCLUSIVE, FAILED):
        if worst in found:
            return INCONCLUSIVE if worst == FAILED else worst
    return NO_REGRESSION


def _verdict(record: JobRecord) -> str:
    job, result = record.job, record.result
    match result:
        case MeasureResult(held=(), settings=()):
            return INCONCLUSIVE
        case MeasureResult() if isinstance(job, MeasureJob):
            return _VERDICTS[measurement.worst_verdict(job, result)]
        case Confirmed() | Culprit() | SeveralCulprits() | Suspects() | Drift():
            return REGRESSION
        case NotConfirmed() | NotReproduced():
            return NO_REGRESSION
        case Unfinished(posterior=posterior):
            return FAILED if posterior is None else INCONCLUSIVE
        case _:
            return INCONCLUSIVE


def differences(names: Names, record: JobRecord) -> list[ComparedRevision]:
    """Revisions compared by a job."""
    job, result = record.job, record.result
    if isinstance(job, MeasureJob) and isinstance(result, MeasureResult):
        return [line for held in result.held for line in _of_held(names, record, job, held)]
    effects, name = _effects(job, result)
    noise = job.noise if isinstance(job, CompareJob | BisectJob) else None
    least = job.min_effect if isinstance(job, CompareJob) else _ANY
    return [
        _compared(names, record, name, effect, noise, measurement.classify(effect, None, least))
        for effect in effects
    ]


def _compared(
    names: Names,
    record: JobRecord,
    revision: str,
    effect: Effect,
    noise: Noise | None,
    word: DifferenceVerdict,
) -> ComparedRevision:
    low, high = effect_sizes.code_interval(effect, noise)
    return ComparedRevision(
        testbed=record.job.testbed,
        run=record.run,
        scenario=names.title(effect.scenario),
        subject=names.label(revision),
        difference=Difference.of(effect),
        code_low=low if math.isfinite(low) else None,
        code_high=high if math.isfinite(high) else None,
        word=word.value,
        why="",
    )


def setting_effects(names: Names, record: JobRecord) -> Iterator[ComparedSetting]:
    """Settings compared by a job."""
    if not isinstance(record.result, MeasureResult):
        return
    for one in record.result.settings:
        plain, setting = split_settings(one.effect.scenario)
        yield ComparedSetting(
            record.job.testbed,
            record.run,
            names.title(plain),
            setting,
            names.label(one.revision),
            Difference.of(one.effect),
        )


def _effects(job: Job, result: Result | None) -> tuple[Sequence[Effect], str]:
    match result:
        case Confirmed(effects=effects) | NotConfirmed(effects=effects):
            return effects, job.bad if isinstance(job, CompareJob) else ""
        case Culprit(effects=effects, revision=revision):
            return effects, revision
        case SeveralCulprits(culprits=culprits):
            return culprits[0].effects, culprits[0].revision
        case _:
            return (), ""


def _of_held(
    names: Names, record: JobRecord, job: MeasureJob, held: RevisionComparison
) -> list[ComparedRevision]:
    found = measurement.classify_all(job, held)
    if held.effects:
        return [
            _compared(
                names, record, held.revision, effect,
                job.noise.get(effect.scenario), found[effect.scenario],
            )
            for effect in held.effects
        ]  # fmt: skip
    scenarios = ", ".join(names.title(one) for one in job.scenarios)
    label = names.label(held.revision)
    word = DifferenceVerdict.SAME if held.same else DifferenceVerdict.OPEN
    return [
        ComparedRevision(
            job.testbed, record.run, scenarios, label, None, None, None, word.value, held.why
        )
    ]


def repeats(names: Names, parts: Sequence[JobRecord]) -> list[SecondRun]:
    """The second run compared with the first, by testbed, subject and scenario."""
    by_run: dict[tuple[str, str], dict[int, RevisionComparison]] = {}
    for one in parts:
        if isinstance(one.result, MeasureResult):
            for held in one.result.held:
                key = (one.job.testbed, held.revision)
                by_run.setdefault(key, {})[one.run] = held
    return [
        SecondRun(
            testbed, scenario, names.label(revision),
            one.ln_ratio, one.low, one.high, not one.clear,
        )
        for (testbed, revision), runs in by_run.items()
        if {1, 2} <= set(runs)
        for scenario, one in measurement.compare_repeats(runs[1].effects, runs[2].effects).items()
    ]  # fmt: skip


def _sentence(
    names: Names,
    verdict: str,
    last: Sequence[JobRecord],
    parts: Sequence[JobRecord],
) -> str:
    job = parts[0].job  # a search begins with a comparison, which has the margin
    assert isinstance(job, MeasureJob | CompareJob)
    first = {
        REGRESSION: "There is a regression.",
        NO_REGRESSION: f"There is no regression of {words.drop(job.min_effect)} or more.",
        INCONCLUSIVE: _unsettled(last),
        FAILED: "Nothing could be measured.",
    }[verdict]
    jobs = [one.job for one in last if isinstance(one.job, MeasureJob)]
    one_kernel = len(jobs) == len(last) and all(len(one.revisions) == 1 for one in jobs)
    if verdict == NO_REGRESSION and one_kernel:
        first = "The settings of one kernel are compared."
    more = [
        words.sentence(one.result, names.label, names.title)
        for one in last
        if one.result is not None and not isinstance(one.result, MeasureResult)
    ]
    if verdict in {REGRESSION, NO_REGRESSION}:
        more = [*_largest(names, last, drop=verdict == REGRESSION), *more]
    if any(not one.consistent for one in repeats(names, parts)):
        more.append("The second run does not agree with the first.")
    return " ".join([first, *more])


def _classified(
    parts: Sequence[JobRecord],
) -> Iterator[tuple[MeasureJob, str, Effect, DifferenceVerdict]]:
    """Effects of measurements, each with its job, its revision and its verdict."""
    for one in parts:
        if isinstance(one.job, MeasureJob) and isinstance(one.result, MeasureResult):
            for held in one.result.held:
                found = measurement.classify_all(one.job, held)
                for effect in held.effects:
                    yield one.job, held.revision, effect, found[effect.scenario]


def _largest(names: Names, last: Sequence[JobRecord], *, drop: bool) -> list[str]:
    """The largest drop or gain that was measured side by side, in a sentence, if there is one."""
    verdict = DifferenceVerdict.SLOWER if drop else DifferenceVerdict.FASTER
    found = [
        (job, revision, effect)
        for job, revision, effect, measured in _classified(last)
        if measured is verdict
    ]
    if not found:
        return []
    job, revision, effect = max(found, key=lambda one: abs(one[2].ln_ratio))
    what = "drop" if drop else "gain"
    most = f"The largest {what}: " if len(found) > 1 else "" if drop else "There is a gain: "
    place = f"{names.title(effect.scenario)} on {job.testbed}"
    pair = f"{names.label(revision)} against {names.label(job.revisions[0])}"
    return [f"{most}{pair}, {words.change(effect)} in {place}."]


def remarks_of(names: Names, record: JobRecord) -> list[str]:
    """Remarks that a reader of a measurement needs: one for each reason."""
    remarks: defaultdict[str, list[str]] = defaultdict(list)
    for job, revision, effect, verdict in _classified([record]):
        if verdict is DifferenceVerdict.OPEN:
            where = f"{names.title(effect.scenario)} on {job.testbed}"
            name = f"{names.label(revision)} and {names.label(job.revisions[0])}"
            known, why = _why_open(job, effect, f"The kernels of {name}", where)
            remarks[why].append(known)
    return [" ".join([*known, why]) for why, known in remarks.items()]


def _why_open(job: MeasureJob, effect: Effect, kernels: str, where: str) -> tuple[str, str]:
    """What is known of an undecided difference; why it is undecided, and what would decide it."""
    if measurement.classify(effect, None, job.min_effect) is DifferenceVerdict.SLOWER:
        metric = metric_of(effect.scenario)
        ends = metric.ends(*effect_sizes.code_interval(effect, job.noise.get(effect.scenario)))
        low, high = (words.percent(end, effect.scenario) for end in ends)
        alone = f"the effect of the code alone is between {low} and {high}"
        return f"{kernels} differ in {where}: {words.change(effect)}; {alone}.", (
            "Images of the same code differ, too, so that one image of each does not show whether "
            "the code or the image is the cause. More boots of the same two do not help; two other "
            "revisions with the same change between them do."
        )
    differ = "differ" if effect.high < 0 or effect.low > 0 else "may or may not differ"
    return f"{kernels} {differ} in {where}: {words.change(effect)}.", (
        f"These boots do not show whether the drop is as large as {words.drop(job.min_effect)}; "
        "more boots may, if the request is extended."
    )


def _unsettled(last: Sequence[JobRecord]) -> str:
    """Summary of an inconclusive answer."""
    reasons = {
        measurement.classify(effect, None, job.min_effect)
        for job, _, effect, verdict in _classified(last)
        if verdict is DifferenceVerdict.OPEN
    }
    if DifferenceVerdict.SLOWER in reasons:
        return (
            "The kernels differ, but the measurements do not show whether their code or only "
            "their images are the cause."
        )
    return "The measurements do not settle it."
