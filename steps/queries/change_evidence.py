"""Parts of the documents of changes, from the facts of their jobs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from netbisect.bisect.model.entities import Boot, Conditions, Fact, Failure, Kernel, Sample, Stage
from netbisect.bisect.model.evidence import Evidence
from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import Result, culprits_of
from netbisect.bisect.model.revision_key import OVERLAY_MARK
from netbisect.reports.model.changes import BootDocument, KernelFailure, RunDocument, StepDocument
from netbisect.reports.render import words
from netbisect.store.db.records import Action, ActionStage, Outcome
from netbisect.store.db.tables import record_of

_OF_THE_KERNEL = (Stage.BUILD, Stage.BOOT)
"""Stages at which a failure concerns the revision."""


def compared(job: CompareJob | BisectJob, result: Result | None) -> tuple[tuple[str, str], ...]:
    """The compared revisions: each culprit with its parent, the earlier first, or the ends."""
    verified = tuple((one.parent, one.revision) for one in culprits_of(result))
    return verified or ((job.good, job.bad),)


def stand_ins(evidence: Evidence, steps: Sequence[StepDocument], sides: set[str]) -> dict[str, str]:
    """By side that was not booted: the first one booted with the same kernel image."""
    image = {revision: kernel.identity for revision, kernel in evidence.kernels.items()}
    booted = list(dict.fromkeys(one.revision for one in steps if one.stage == "trial"))
    return {
        side: other
        for side in sorted(sides.difference(booted) & image.keys())
        if (other := next((one for one in booted if image.get(one) == image[side]), ""))
    }


def places(
    job: CompareJob | BisectJob, evidence: Evidence, sides: set[str]
) -> tuple[tuple[str, ...], str]:
    """The testbeds that measured for a search, unless its own did alone; whose boots to show.

    That is one with boots of all the sides: rates of several testbeds do not compare.
    """
    fresh = Counter(observed.testbed for observed in evidence.observations if observed.fresh)
    known = job.testbeds if isinstance(job, BisectJob) else ()
    used = tuple(name for name in known if fresh[name])
    if used in {(), (job.testbed,)}:
        return (), ""
    image = {revision: kernel.identity for revision, kernel in evidence.kernels.items()}

    def fewest(name: str) -> int:
        own = [
            observed
            for observed in evidence.observations
            if observed.fresh and observed.testbed == name
        ]
        return min(
            sum(one.revision == side or one.identity == image.get(side) for one in own)
            for side in sides
        )

    return used, max(used, key=fewest)


def of_testbed(evidence: Evidence, testbed: str) -> Evidence:
    """The fresh readings of one of several testbeds; all if there is only one."""
    if not testbed:
        return evidence
    own = tuple(one for one in evidence.observations if one.fresh and one.testbed == testbed)
    return replace(evidence, observations=own)


def pps(
    evidence: Evidence, scenarios: Sequence[str], sides: set[str]
) -> dict[str, dict[str, tuple[float, ...]]]:
    """By scenario and revision; a side has the boots of all revisions with its very image."""
    found: dict[str, dict[str, tuple[float, ...]]] = {name: {} for name in scenarios}
    image = {revision: kernel.identity for revision, kernel in evidence.kernels.items()}
    for observed in evidence.observations:
        identical = sorted(side for side in sides if image.get(side) == observed.identity)
        for name, value in observed.ln_pps.items():
            for revision in dict.fromkeys((observed.revision, *identical)) if name in found else ():
                known = found[name].get(revision, ())
                found[name][revision] = (*known, metric_of(name).number(value))
    return found


def step_of(action: Action, facts: Sequence[Fact], lead: str, pause: str) -> StepDocument:
    """An action and its result or pause, without kernels that were built ahead."""
    result, seconds = action.note or str(action.outcome or pause or "under way"), 0.0
    runs: list[float] = []
    for fact in facts:
        match fact:
            case Kernel(revision=revision) | Failure(revision=revision) if (
                revision != action.revision
            ):
                continue
            case Kernel():
                result = _built(fact)
            case Boot():
                result = "booted"
            case Sample(scenario=scenario) if scenario == lead and fact.valid:
                runs.append(metric_of(lead).level(fact.pps))
            case Failure(why=why):
                result = why
        if not isinstance(fact, Conditions):
            seconds += fact.seconds
    return record_of(
        StepDocument,
        action,
        number=action.seq,
        stage="kernel" if action.stage is ActionStage.KERNEL else "trial",
        outcome=action.outcome.value if action.outcome else None,
        at=action.intended_at,
        place=0,
        result=result,
        pps=metric_of(lead).number(math.fsum(runs) / len(runs)) if runs else None,
        seconds=seconds,
    )


def built_ahead(action: Action, facts: Sequence[Fact]) -> Iterator[StepDocument]:
    """The kernels built ahead, successfully or not."""
    for fact in facts:
        if isinstance(fact, Kernel | Failure) and fact.revision != action.revision:
            built = isinstance(fact, Kernel)
            yield record_of(
                StepDocument,
                action,
                number=action.seq,
                stage="kernel",
                revision=fact.revision,
                why="built ahead, while the search waited",
                outcome=(Outcome.OK if built else Outcome.UNMEASURABLE).value,
                note="",
                at=fact.at,
                finished_at=fact.at + fact.seconds,
                place=0,
                result=_built(fact) if isinstance(fact, Kernel) else fact.why,
                pps=None,
                seconds=fact.seconds,
                posterior=None,
            )


def failures(facts: Sequence[Fact]) -> tuple[KernelFailure, ...]:
    """Failures of kernels; a second attempt with the same failure is left out."""
    found: dict[tuple[str, str, str], KernelFailure] = {}
    for fact in facts:
        if isinstance(fact, Failure) and fact.log.strip() and fact.stage in _OF_THE_KERNEL:
            # Goes down under load in the stage of the boot, which is what ended.
            key = (fact.revision, fact.scenario, fact.why)
            found.setdefault(key, KernelFailure(*key, fact.log))
    return tuple(found.values())


def conditions(facts: Sequence[Fact], lead: str) -> dict[str, str]:
    """The latest conditions of the leading scenario."""
    for fact in reversed(facts):
        if isinstance(fact, Conditions) and fact.scenario == lead:
            return fact.values
    return {}


def _built(kernel: Kernel) -> str:
    fixes = " and ".join(kernel.config.split(OVERLAY_MARK)[1:])
    return f"built {kernel.version}" + (f" with {fixes}" if fixes else "")


def overlays(evidence: Evidence) -> dict[str, str]:
    """By fix: how many kernels it was applied to; the attempts say which."""
    kernels = evidence.kernels.values()
    applied = Counter(name for one in kernels for name in one.config.split(OVERLAY_MARK)[1:])
    return {
        f"with {name} applied": f"{count} of {words.count(len(kernels), 'kernel')}"
        for name, count in sorted(applied.items())
    }


def boots_of(facts: Sequence[Fact]) -> tuple[BootDocument, ...]:
    """All boots with their runs."""
    runs: defaultdict[str, list[RunDocument]] = defaultdict(list)
    for fact in facts:
        if isinstance(fact, Sample):
            runs[fact.boot].append(record_of(RunDocument, fact))
    return tuple(
        BootDocument(one.id, one.revision, one.kernel, one.at, tuple(runs[one.id]))
        for one in facts
        if isinstance(one, Boot)
    )
