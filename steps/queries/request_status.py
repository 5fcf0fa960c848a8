"""Status of a request: progress, queue and history, in one document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from netbisect.bisect.model.evidence import Evidence
from netbisect.bisect.model.jobs import BisectJob, MeasureJob
from netbisect.bisect.model.results import MeasureResult
from netbisect.reports.model import types
from netbisect.reports.render import words
from netbisect.steps.policy import fair_share
from netbisect.steps.policy.kernels import Kernels
from netbisect.steps.policy.request_cost import cost_of, price_of_trial
from netbisect.steps.policy.request_spec import PRIORITIES
from netbisect.steps.queries import request_answer
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import boots_of
from netbisect.steps.queries.request_answer import Names
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import ActionStage, JobRecord, JobState, Request, RequestState
from netbisect.store.db.tables import record_of
from netbisect.store.git.history import History
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.toml import FileError

_PRIORITIES = {number: name for name, number in PRIORITIES.items()}
_TICKS = 20
"""Ticks within which a running scheduler has decided about a new job."""


@dataclass(frozen=True)
class RequestQueries:
    """Documents of requests."""

    ledger: Ledger
    settings: Settings
    lab: Lab
    history: History

    @cached_property
    def kernels(self) -> Kernels:
        """Configurations of kernels."""
        return Kernels(self.lab, self.history)

    @cached_property
    def names(self) -> Names:
        """Display names."""
        return Names(self.ledger.commits.label, LabContext(lab=self.lab).title)

    def evidence(self, ledger: Ledger, record: JobRecord) -> Evidence:
        """All facts about a job, also if its testbed has left the lab file."""
        try:
            return self.kernels.evidence(ledger, record)
        except FileError:
            return LabContext().evidence(ledger, record)

    def document(self, number: int) -> types.RequestDocument:
        """The document of a request in the ledger. Raises StoreError if there is none."""
        return self._document(self.ledger.requests.get(number), self.ledger.requests.jobs(number))

    def answered(self, request: Request, parts: Sequence[JobRecord]) -> types.RequestDocument:
        """The document of a request whose jobs have all ended, with its result."""
        verdict, sentence = request_answer.answer(self.names, parts)
        failed = verdict == request_answer.FAILED
        state = RequestState.FAILED if failed else RequestState.ANSWERED
        return self._document(replace(request, state=state, verdict=verdict, why=sentence), parts)

    def _document(self, request: Request, parts: Sequence[JobRecord]) -> types.RequestDocument:
        ledger, names, parameters = self.ledger, self.names, request.parameters
        view = _Queue(self)
        over = request.state in {RequestState.ANSWERED, RequestState.FAILED}
        return record_of(
            types.RequestDocument,
            request,
            number=request.id,
            state=request.state.value,
            status=request_answer.exit_status(request) if over else None,
            sentence=request.why,
            priority=_PRIORITIES.get(request.priority, str(request.priority)),
            branch=parameters["branch"],
            subjects=tuple(parameters["subjects"]),
            labels=tuple(ledger.commits.label(one) for one in parameters["subjects"]),
            boots=parameters["boots"],
            runs=parameters["runs"],
            margin_percent=parameters["margin_percent"],
            parts=tuple(map(view.part, parts)),
            differences=tuple(
                line for one in parts for line in request_answer.differences(names, one)
            ),
            settings=tuple(
                line for one in parts for line in request_answer.setting_effects(names, one)
            ),
            repeats=tuple(request_answer.repeats(names, parts)),
            remarks=tuple(
                remark
                for one in request_answer.last_of(parts)
                for remark in request_answer.remarks_of(names, one)
            ),
            values=request_answer.folders(self.settings, request, parts),
            spent=ledger.costs.of_jobs([one.id for one in parts]),
            history=tuple(
                record_of(types.RequestEntry, one)
                for one in ledger.requests.audit(request=request.id)
            ),
            address=self.settings.request_address(request.id),
        )


class _Queue:
    """The jobs of a request, with the queue of their testbeds."""

    def __init__(self, queries: RequestQueries) -> None:
        self._queries = queries
        self._ledger = queries.ledger
        self._prices = cache(queries.ledger.costs.prices)
        self._open = queries.ledger.jobs.all_open()
        self._left: dict[int, float] = {}

    def part(self, record: JobRecord) -> types.RequestPart:
        """A job of a request."""
        job = record.job
        still = record.state is JobState.OPEN
        ahead = self._ahead(record) if still else []
        left = self._seconds(record) + sum(self._before(record, one) for one in ahead)
        before = {one.request or -one.id for one in ahead if not _take_turns(record, one)}
        result = record.result
        sentence = ""
        if result is not None and not isinstance(result, MeasureResult):
            sentence = words.sentence(result, self._queries.names.label, self._queries.names.title)
        done, most = boots_of(self._ledger, record, self._queries.evidence)
        return record_of(
            types.RequestPart,
            record,
            job=record.id,
            kind=record.kind.capitalize(),
            scenarios=job.scenarios,
            state=record.state.value,
            boots=done,
            boots_wanted=most,
            # 1 for the running job, and for those that alternate with it.
            place=1 + len(before) if still else None,
            seconds_left=left if still else None,
            now=self._now(record) if still else "",
            sentence=sentence,
        )

    def _now(self, record: JobRecord) -> str:
        held = self._ledger.quarantines.current().get(record.job.testbed)
        if held is not None:
            return f"waits: {held.testbed} is in quarantine: {words.clean(held.why)}"
        context = LabContext(lab=self._queries.lab)
        orders = []
        for decision in self._ledger.actions.all_open(record.id):
            what = "builds" if decision.stage is ActionStage.KERNEL else "measures"
            why = context.why_waiting(self._ledger, decision) or decision.why
            orders.append(f"{what} {self._ledger.commits.label(decision.revision)}: {why}")
        if orders:
            return "; ".join(orders)
        if record.job.testbed not in {one.name for one in self._queries.lab.testbeds}:
            return f"waits: the lab file has no testbed {record.job.testbed}"
        for stage in (ActionStage.TRIAL, ActionStage.KERNEL):
            settings, lab = self._queries.settings, self._queries.lab
            if why := fair_share.why_waiting(self._ledger, settings, lab, record, stage):
                return f"waits: {why}"
        late = self._ledger.clock() - record.opened_at > _TICKS * self._queries.settings.tick
        never = late and not self._ledger.actions.of_job(record.id)
        hint = "; after a testbed is added, the master must be reloaded" if never else ""
        return f"waits for the scheduler{hint}"

    def _ahead(self, record: JobRecord) -> list[JobRecord]:
        """Jobs of the same testbed that run before this one, or alternate with it."""
        found = []
        for one in self._open:
            if one.id == record.id or one.job.testbed != record.job.testbed:
                continue
            same_person = one.requested_by == record.requested_by and one.request is not None
            if one.priority > record.priority or (
                one.priority == record.priority and (not same_person or one.id < record.id)
            ):
                found.append(one)
        return found

    def _before(self, record: JobRecord, other: JobRecord) -> float:
        """Seconds for which another job delays this one."""
        seconds = self._seconds(other)
        return min(seconds, self._seconds(record)) if _take_turns(record, other) else seconds

    def _seconds(self, record: JobRecord) -> float:
        """Maximum seconds of the testbed and of one builder that a job still takes."""
        if record.id not in self._left:
            self._left[record.id] = self._seconds_of(record)
        return self._left[record.id]

    def _seconds_of(self, record: JobRecord) -> float:
        job = record.job
        prices = self._prices(job.testbed)
        if record.request is not None and isinstance(job, MeasureJob | BisectJob):
            cost = cost_of(job, self._queries.evidence(self._ledger, record), prices)
            return cost.seconds + len(cost.builds) * prices.build
        done, most = boots_of(self._ledger, record, self._queries.evidence)
        return (most - done) * price_of_trial(job, prices)


def _take_turns(one: JobRecord, other: JobRecord) -> bool:
    return one.priority == other.priority and one.requested_by != other.requested_by
