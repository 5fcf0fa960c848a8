"""Decisions: submits the buildset of each, and records how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from twisted.python import log

from netbisect.bisect.model.faults import RULES, Fault
from netbisect.bisect.model.jobs import NightlyJob, ProfileJob
from netbisect.bisect.model.results import Unfinished
from netbisect.bisect.model.revision_key import commit_of
from netbisect.steps.master.builders import bench_builder, kernel_builder
from netbisect.steps.master.lab_step import (
    AVOIDED_PROPERTY,
    DECISION_PROPERTY,
    KERNEL_PROPERTY,
    PROFILE_PROPERTY,
    RUNS_PROPERTY,
)
from netbisect.steps.policy import attempts
from netbisect.steps.policy.kernels import Kernels
from netbisect.steps.policy.profiles import PRIORITY_REQUEST
from netbisect.steps.queries import request_answer
from netbisect.steps.scheduler.buildsets import BuildsetOutcome, SchedulerPart, was_stopped
from netbisect.steps.scheduler.followups import PRIORITY_BISECTION, PRIORITY_NIGHT
from netbisect.steps.scheduler.prefetch import Prefetcher
from netbisect.steps.scheduler.quarantine import QuarantinePolicy
from netbisect.steps.scheduler.testbed_groups import PRIORITY_PEER
from netbisect.store.db.records import Action, ActionStage, JobRecord, JobState, Outcome
from netbisect.store.ledger import Ledger

MOST_TRIES = RULES[Fault.NO_ANSWER].tries
"""Tries of a decision without a result from the lab."""
MOST_STOPS = 20
"""Stops of the master during one decision; these do not count as tries."""
_REPEATED = (BuildsetOutcome.FAILED, BuildsetOutcome.USAGE)
_OUTCOMES = {
    BuildsetOutcome.OK: Outcome.OK,
    BuildsetOutcome.UNMEASURABLE: Outcome.UNMEASURABLE,
    BuildsetOutcome.CANCELLED: Outcome.CANCELLED,
}


@dataclass
class Decisions(SchedulerPart):
    """Carries out the decisions of jobs."""

    kernels: Kernels
    prefetcher: Prefetcher
    quarantine: QuarantinePolicy
    _raised: dict[int, JobRecord] = field(default_factory=dict)
    """The most urgent job that waits for a kernel, by its decision."""

    def raise_priority(self, decision: Action, record: JobRecord) -> None:
        """Gives a build the priority of a job that waits for its kernel, if it is higher."""
        known = self._raised.get(decision.id, record)
        self._raised[decision.id] = max(known, record, key=lambda one: one.priority)

    async def follow(
        self, record: JobRecord, decision: Action
    ) -> BuildsetOutcome | Unfinished | None:
        """Outcome of a decision: None while it waits or runs, Unfinished if it ends the job."""
        if attempts.pauses(decision, time.time()):
            return None
        buildset = decision.buildset or await self._submitted(record, decision)
        ended = await self.buildsets.outcome(buildset)
        if ended is not None:
            self._raised.pop(decision.id, None)
            return await self._end(record, decision, *ended)
        raised = self._raised.get(decision.id)
        priority = record.priority
        if raised is not None:
            now = await self.database.do(lambda ledger: ledger.jobs.get(raised.id))
            if now.state is JobState.OPEN:
                priority = max(priority, now.priority)
            else:
                del self._raised[decision.id]
        if record.request is not None or raised is not None:  # users can change it
            await self.buildsets.set_priority(buildset, priority)
        return None

    async def _end(
        self, record: JobRecord, decision: Action, end: BuildsetOutcome, note: str
    ) -> BuildsetOutcome | Unfinished | None:
        """Records how a decision ended, or the next attempt at it; see `follow`."""
        # Before the decision is closed: after a kill between the two, both are done again.
        await self.database.do(
            lambda ledger: self.quarantine.quarantine_after(ledger, decision, end, note)
        )
        kernel = decision.stage is ActionStage.KERNEL
        own = kernel or decision.testbed == record.job.testbed
        stopped = end is BuildsetOutcome.SHUT_DOWN
        repeated = stopped or end in _REPEATED or (end is BuildsetOutcome.LAB and kernel)
        earlier = await self.database.do(partial(attempts.earlier, decision=decision))
        tries = 1 + sum(was_stopped(one.note) is stopped for one in earlier)
        most = MOST_STOPS if stopped else MOST_TRIES
        if repeated and (own or stopped) and tries < most:
            # The second builder is tried at once; the disk of the only one may be full.
            later = end is BuildsetOutcome.USAGE or (end is BuildsetOutcome.LAB and tries > 1)
            pause = attempts.PAUSE_SECONDS if later else 0.0
            await self.database.do(lambda ledger: ledger.actions.retry(decision.id, note, pause))
            return end
        outcome = _OUTCOMES.get(end, Outcome.LOST)
        cancelled = record.request if own and end is BuildsetOutcome.CANCELLED else None
        if cancelled is not None:  # first, so that a kill between the two does not lose it
            await self.database.do(partial(self._cancel_request, request=cancelled, note=note))
        await self.database.do(lambda ledger: ledger.actions.finish(decision.id, outcome, note))
        if cancelled is not None:
            return None
        if end in (BuildsetOutcome.OK, BuildsetOutcome.UNMEASURABLE) or not own:
            return end  # a failure of a peer does not end the job
        if end is BuildsetOutcome.LAB and not isinstance(record.job, NightlyJob):
            held = await self.database.do(lambda ledger: ledger.quarantines.current())
            if record.job.testbed in held:
                return end  # the job waits for the release
        return Unfinished(_failure(decision, end, note, tries if repeated else 0))

    def _cancel_request(self, ledger: Ledger, *, request: int, note: str) -> None:
        """Cancels a request after a user has stopped one of its builds on Buildbot's pages."""
        why = f"a build of it was cancelled: {note}"
        message = f"Request {request} was cancelled on the web pages: {why}."
        mail = request_answer.news(ledger, self.settings, request, message)
        ledger.requests.cancel(request, who="a user", via="the web pages", why=why, mail=mail)

    async def _submitted(self, record: JobRecord, decision: Action) -> int:
        """Submits a decision; returns its buildset, which may be that of another master."""
        own = await self._submit(record, decision)
        known = await self.database.do(lambda ledger: ledger.actions.submitted(decision.id, own))
        assert known.buildset is not None
        if known.buildset != own:  # another master was quicker
            await self.buildsets.stop(own, f"buildset {known.buildset} does the same")
        return known.buildset

    async def _submit(self, record: JobRecord, decision: Action) -> int:
        """The buildset of a decision: an orphan with its id, a prefetch, or a new one."""
        orphan = await self.buildsets.of_decision(decision)
        if orphan is not None:
            log.msg(f"job {record.id}: adopting buildset {orphan} of {decision.external_id}")
            return orphan
        adopted = await self.prefetcher.adopt(record, decision)
        if adopted is not None:
            return adopted
        properties: dict[str, Any] = {
            DECISION_PROPERTY: decision.id,
            "job": record.id,
            "kernel_config": decision.config,
        }
        builder, priority = kernel_builder(decision.arch), record.priority
        if decision.stage is not ActionStage.KERNEL:
            read = partial(self.kernels.newest, record=record, name=decision.revision)
            kernel = await self.database.do(read)
            assert kernel is not None
            properties[KERNEL_PROPERTY] = kernel.key
            properties["scenarios"] = list(record.job.scenarios)
            properties[RUNS_PROPERTY] = decision.runs
            if isinstance(record.job, ProfileJob):
                properties[PROFILE_PROPERTY] = record.job.pps
                priority = max(priority, PRIORITY_REQUEST)  # it has waited, see must_wait
            if priority == PRIORITY_NIGHT and await self.database.do(partial(_is_searched, record)):
                priority = PRIORITY_BISECTION  # or it waits while two searches take turns
            builder = bench_builder(decision.target)
            if decision.target != record.job.testbed:
                priority = min(PRIORITY_PEER, priority)
        elif decision.attempt > 1:
            properties[AVOIDED_PROPERTY] = await self._failed_workers(decision)
        return await self.buildsets.submit(
            decision.external_id,
            builder,
            decision.why,
            properties,
            branch=record.job.branch,
            revision=commit_of(decision.revision),
            priority=priority,
        )

    async def _failed_workers(self, decision: Action) -> list[str]:
        """Workers on which earlier attempts at a decision failed."""
        names: set[str] = set()
        for one in await self.database.do(partial(attempts.earlier, decision=decision)):
            if one.buildset is not None and not was_stopped(one.note):
                names |= await self.buildsets.workers_of(one.buildset)
        return sorted(names)

    async def withdraw(self, decision: Action, why: str) -> bool:
        """Withdraws a trial that has not begun; False if it has."""
        if decision.stage is ActionStage.KERNEL:
            return False
        buildset = await self.buildsets.of_decision(decision)
        if buildset is not None and (
            await self.buildsets.outcome(buildset) is not None  # its result counts
            or not await self.buildsets.cancel_unless_running(buildset, why)
        ):
            return False
        await self._record_withdrawal(decision, why)
        return True

    async def _record_withdrawal(self, decision: Action, why: str) -> None:
        await self.database.do(
            lambda ledger: ledger.actions.finish(decision.id, Outcome.WITHDRAWN, why)
        )

    async def withdraw_all(self, record: JobRecord) -> None:
        """Withdraws all decisions of a job with a result, before that is recorded.

        A kill in between finds the same result again.
        """
        why = "the job had its result"
        for decision in await self.database.do(lambda ledger: ledger.actions.all_open(record.id)):
            if not await self.withdraw(decision, why):
                await self._record_withdrawal(decision, why)

    async def cancel(self, decision: Action) -> None:
        """Ends a decision of a cancelled request."""
        buildset = await self.buildsets.of_decision(decision)
        end, note = BuildsetOutcome.CANCELLED, "not submitted yet"
        if buildset is not None:
            ended = await self.buildsets.outcome(buildset)
            if ended is None:
                await self.buildsets.stop(buildset, "its request was cancelled")
                return
            end, note = ended
        outcome = _OUTCOMES.get(end, Outcome.CANCELLED)
        await self.database.do(
            lambda ledger: self.quarantine.quarantine_after(ledger, decision, end, note)
        )
        await self.database.do(lambda ledger: ledger.actions.finish(decision.id, outcome, note))


def _is_searched(record: JobRecord, ledger: Ledger) -> bool:
    """Whether a search for an alert is open on the testbed of a job."""
    jobs = ledger.jobs.all_open()
    bed = record.job.testbed
    return any(one.priority == PRIORITY_BISECTION and one.job.testbed == bed for one in jobs)


def _failure(decision: Action, end: BuildsetOutcome, note: str, tries: int) -> str:
    what = "the kernel" if decision.stage is ActionStage.KERNEL else "the trial"
    count = f" in {tries} tries" if tries else ""
    return (
        f"{what} of {decision.revision[:12]} on {decision.target} has no result{count}: "
        f"{end.value}: {note}"
    )
