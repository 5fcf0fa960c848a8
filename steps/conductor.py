"""The conductor: turns moves into buildsets and buildsets into facts, one decision at a time.

It holds no state. Whatever woke it - an event, the clock, a restart - it looks at the open
questions in the ledger, sees what is missing, and orders that:

    question -> decision (written first) -> buildset -> facts -> next move -> ... -> finding

Submitting is safe against a kill at any instant: the decision stands in the ledger before
Buildbot hears of it, its external id travels with the buildset, and a decision without a
buildset first looks whether an orphan with its id exists.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from buildbot.schedulers.base import ReconfigurableBaseScheduler
from twisted.internet import defer, task
from twisted.python import log

from netbisect.bisect import plan
from netbisect.bisect.faults import RULES, Fault
from netbisect.bisect.meanwhile import Wait
from netbisect.bisect.model import (
    Bisection,
    Evidence,
    Finding,
    Move,
    Night,
    Profiling,
    Unfinished,
    Visit,
    kernel_name,
)
from netbisect.bisect.subject import commit_of
from netbisect.steps import profiles, turns
from netbisect.steps import request_answer as answers
from netbisect.steps.absence import Absence
from netbisect.steps.builders import bench_builder, kernel_builder
from netbisect.steps.casework import Casework
from netbisect.steps.foresight import Foresight
from netbisect.steps.homecoming import Homecoming
from netbisect.steps.lab_step import (
    AVOIDED_PROPERTY,
    DECISION_PROPERTY,
    KERNEL_PROPERTY,
    PROFILE_PROPERTY,
    RUNS_PROPERTY,
)
from netbisect.steps.memory import memory
from netbisect.steps.orders import End, Orders, was_stopped
from netbisect.steps.settings import Settings
from netbisect.steps.sharing import PRIORITY_GUEST, Places, Sharing
from netbisect.steps.transfer import tidy
from netbisect.steps.ward import Ward
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, Decision, DecisionStage, QuestionState
from netbisect.store.records import Outcome as Ended
from netbisect.workers.artefact import FACT
from netbisect.workers.lab import Lab, Testbed

NAME = "conductor"
MOST_TRIES = RULES[Fault.NO_ANSWER].tries
"""Of one order; what fails as often without an answer from the lab will not come."""
MOST_STOPS = 20
"""Of the master under one order, besides: they are nobody's fault, but so many are no visits."""


class Conductor(ReconfigurableBaseScheduler):
    """A scheduler of Buildbot: claimed by one master, and with a switch in the web pages."""

    compare_attrs = ("settings", "lab")
    POLL_INTERVAL_SEC = 60
    """Between two looks at whether another master's conductor is no more."""

    def __init__(self, **kwargs: Any) -> None:
        self._lock = defer.DeferredLock()
        self._wanted = False
        self._consumer: Any = None
        self._clock: task.LoopingCall | None = None
        self._waits: dict[tuple[int, str], tuple[object, ...]] = {}
        """By question and testbed: what was the case when it had to wait; it takes long to see."""
        super().__init__(**kwargs)

    def checkConfig(
        self,
        builderNames: Sequence[str],
        settings: Settings,
        lab: Lab,
        **kwargs: Any,
    ) -> None:
        super().checkConfig(builderNames=builderNames, **kwargs)

    async def _reconfigure(self, settings: Settings, lab: Lab, **kwargs: Any) -> None:
        await super().reconfigService(**kwargs)
        self.settings = settings
        self.lab = lab
        self.memory = memory(settings)
        self.casework = Casework(settings, lab)
        self.orders = Orders(self, lab.source.repository)
        self.foresight = Foresight(self.orders, self.memory, self.casework.kernels)
        self.ward = Ward(settings, lab, self.orders, self.memory)
        self.sharing = Sharing(settings, lab, self.orders, self.memory)
        self.absence = Absence(settings, lab, self.orders, self.memory)
        self.homecoming = Homecoming(lab, self.orders, self.memory, self.ward, self.sharing)

    def reconfigService(self, **kwargs: Any) -> defer.Deferred[None]:
        return defer.ensureDeferred(self._reconfigure(**kwargs))

    # ------------------------------------------------------------------------ coming and going

    def activate(self) -> defer.Deferred[None]:
        """Starts to listen, and catches up with what happened meanwhile."""
        return defer.ensureDeferred(self._activate())

    async def _activate(self) -> None:
        await super().activate()
        if not self.enabled:
            return
        self._consumer = await self.master.mq.startConsuming(
            self._on_complete, ("buildsets", None, "complete")
        )
        await self.memory.do(self.casework.write_missing_pages)
        self._clock = task.LoopingCall(self.advance)
        self._clock.clock = self.master.reactor
        self._clock.start(self.settings.tick, now=True)

    def deactivate(self) -> defer.Deferred[None]:
        """Stops to listen; a move in the making is finished first."""
        return defer.ensureDeferred(self._deactivate())

    async def _deactivate(self) -> None:
        if self._clock is not None and self._clock.running:
            self._clock.stop()
        if self._consumer is not None:
            self._consumer.stopConsuming()
            self._consumer = None
        await self._lock.run(lambda: None)
        await self.memory.do(Ledger.give_up_lead)  # another master's conductor may begin
        await super().deactivate()

    def _on_complete(self, _: object, message: dict[str, Any]) -> None:
        if (message.get("external_idstring") or "").startswith("nb:"):
            self.advance()

    def advance(self) -> defer.Deferred[None]:
        """Looks at all open questions; calls that come while it looks become one more look."""
        if self._wanted:
            return defer.succeed(None)
        self._wanted = True
        done: defer.Deferred[None] = self._lock.run(
            lambda: defer.ensureDeferred(self._advance_all())
        )
        return done.addErrback(lambda failure: log.err(failure, "the conductor; it looks again"))

    # ------------------------------------------------------------------------------- the loop

    async def _advance_all(self) -> None:
        self._wanted = False
        if not await self.memory.do(Ledger.leads):
            return  # another master with this ledger gives the orders
        await self.ward.release_who_is_well()
        for decision in await self.memory.do(Ledger.held_decisions):
            await self._take_back(decision)
        waiting = await self.memory.do(lambda ledger: ledger.open_questions())
        while waiting:
            asked = waiting.pop(0)
            try:
                followers = await self._advance(asked)
            except Exception:  # noqa: BLE001 - one question must not hold up the others
                log.err(None, f"question {asked.id}")
                continue
            waiting += followers
        await self.homecoming.send()
        await self.absence.tell()

    async def _take_back(self, decision: Decision) -> None:
        """Ends what was ordered for a request that was cancelled since."""
        buildset = decision.buildset
        if buildset is None:  # killed between the two: it may have been given
            orphan = await self.orders.called(decision.external_id)
            if orphan is not None:
                submitted = buildset = int(orphan["bsid"])
                await self.memory.do(lambda ledger: ledger.submitted(decision.id, submitted))
        end, note = End.CANCELLED, "it was not given yet"
        if buildset is not None:
            ended = await self.orders.ended(buildset)
            if ended is None:
                await self.orders.stop(buildset, "its request was cancelled")
                return
            end, note = ended
        outcome = _OUTCOMES.get(end, Ended.CANCELLED)
        await self.memory.do(lambda ledger: self.ward.after(ledger, decision, end, note))
        await self.memory.do(lambda ledger: ledger.finish(decision.id, outcome, note))

    async def _advance(self, asked: Asked) -> list[Asked]:
        """Takes one question as far as it goes now; the questions that follow from its end."""
        while True:
            places = await self.sharing.places(asked)
            under_way = await self._follow_all(asked, places)
            if under_way is None:
                continue  # there are new facts
            if isinstance(under_way, Unfinished):
                return await self._conclude(asked, under_way)
            if under_way:
                await self.foresight.look(asked, under_way[0])
            elif places.held is not None and not places.open:
                answer = self.ward.answer(asked, places.held)
                return [] if answer is None else await self._conclude(asked, answer)
            move = await self._decide_all(asked, places, under_way)
            if move is None:
                return []  # the end of something wakes us
            if not isinstance(move, Visit):
                return await self._conclude(asked, move)

    async def _follow_all(self, asked: Asked, places: Places) -> list[Decision] | Unfinished | None:
        """What is under way for a question; None when something of it has ended."""
        decisions = await self.memory.do(lambda ledger: ledger.open_decisions(asked.id))
        under_way = []
        for decision in decisions:
            why = places.shut.get(decision.testbed)
            if why is not None and await self.ward.called_off(decision, why):
                continue
            end = await self._follow(asked, decision)
            if isinstance(end, Unfinished):
                return end
            if end is None:
                under_way.append(decision)
        return under_way if len(under_way) == len(decisions) else None

    async def _decide_all(
        self, asked: Asked, places: Places, under_way: list[Decision]
    ) -> Move | None:
        """The moves of the idle testbeds of a question: the last one, or its answer."""
        busy = {decision.testbed for decision in under_way}
        if busy.issuperset(places.open):
            return None
        ahead = await self.foresight.under_way(asked)
        builders = await self.sharing.idle_builders(asked)
        state = (await self.memory.do(Ledger.last_event), builders, frozenset(ahead))
        last: Move | None = None
        for testbed in places.open:
            if testbed in busy or self._waits.get((asked.id, testbed)) == state:
                continue
            decide = partial(
                self._decide, asked=asked, testbed=testbed, ahead=ahead, builders=builders
            )
            move = await self.memory.do(decide)
            if move is None and under_way:
                self._waits[asked.id, testbed] = state
            last = move or last
            if move is not None and not isinstance(move, Visit):
                return move
        return last

    async def _conclude(self, asked: Asked, finding: Finding) -> list[Asked]:
        await self.ward.give_up(asked)
        self._waits = {name: seen for name, seen in self._waits.items() if name[0] != asked.id}
        followers: list[Asked] = await self.memory.do(
            lambda ledger: self.casework.conclude(ledger, asked, finding)
        )
        if said := await tidy(self.settings):  # what it needed may go now
            log.msg(said)
        self.master.mq.produce(("netbisect", str(asked.id), "closed"), {"id": asked.id})
        return followers

    def _decide(
        self,
        ledger: Ledger,
        asked: Asked,
        testbed: str,
        ahead: Mapping[str, float],
        builders: int,
    ) -> Move | None:
        """The next move of a testbed; a visit is written down. None when it has to wait.

        That is when another question, or another testbed of this one, builds its kernel, when the
        others' visits may tell enough, or of a profile when the testbed is wanted;
        of a request also when it is others' turn, or another one makes the same boot.

        Args:
            ledger: Where it is written down.
            asked: For which question.
            testbed: Which one is idle.
            ahead: By revision: since when its kernel is built ahead.
            builders: That are idle, of a question with several testbeds.
        """
        if isinstance(asked.question, Profiling) and profiles.must_wait(ledger, asked):
            return None
        place = self.lab.testbed(testbed)
        evidence = self.casework.kernels.evidence(ledger, asked)
        prices = ledger.prices(testbed)
        now = time.time()
        left = {name: max(0.0, at + prices.build - now) for name, at in ahead.items()}
        question = asked.question
        move: Move | Wait
        if isinstance(question, Bisection) and question.others:
            seen = self.sharing.meanwhile(
                ledger, asked, testbed, building=left, builders=builders, prices=prices
            )
            move = plan.next_together(question, evidence, prices, seen)
        else:
            move = plan.next_move(question, evidence, prices, left)
        if isinstance(move, Wait):
            return None
        return self._write_down(ledger, asked, place, evidence, move)

    def _write_down(
        self, ledger: Ledger, asked: Asked, testbed: Testbed, evidence: Evidence, move: Move
    ) -> Move | None:
        """A visit becomes a decision; None when its kernel is being built already."""
        if not isinstance(move, Visit):
            return move
        if asked.request is not None and (
            ledger.question(asked.id).state is not QuestionState.OPEN  # cancelled meanwhile
            or turns.is_made(ledger, asked, move.revision)
        ):
            return None
        config = self.casework.kernels.config_of(testbed, move.revision)
        wanted = kernel_name(move.revision, move.layout)
        kernel = evidence.kernels.get(wanted)
        if kernel is not None and (self.settings.kernels / kernel.key / FACT).is_file():
            profiling = isinstance(asked.question, Profiling)
            stage = DecisionStage.PROFILE if profiling else DecisionStage.TRIAL
            target = testbed.name
        elif self._being_built(ledger, wanted, config, testbed.arch):
            return None
        else:
            stage, target = DecisionStage.KERNEL, kernel_builder(testbed.arch)
        if asked.request is not None and turns.why_waiting(
            ledger, self.settings, self.lab, asked, stage, testbed.name
        ):
            return None
        ledger.intend(
            asked.id,
            stage,
            wanted,
            target,
            testbed=testbed.name,
            config=config,
            arch=testbed.arch,
            why=move.why,
            belief=move.belief,
            runs=move.runs,
        )
        return move

    @staticmethod
    def _being_built(ledger: Ledger, revision: str, config: str, arch: str) -> bool:
        wanted = (DecisionStage.KERNEL, revision, config, arch)
        return any(
            (one.stage, one.revision, one.config, one.arch) == wanted
            for one in ledger.open_decisions()
        )

    # -------------------------------------------------------------------------- the buildsets

    async def _follow(self, asked: Asked, decision: Decision) -> End | Unfinished | None:
        """What became of a decision: None while it runs, Unfinished when it will never end."""
        buildset = decision.buildset
        if buildset is None:
            submitted = await self._submit(asked, decision)
            known = await self.memory.do(lambda ledger: ledger.submitted(decision.id, submitted))
            buildset = known.buildset
            assert buildset is not None
            if buildset != submitted:  # another master was quicker
                await self.orders.stop(submitted, f"buildset {buildset} is the same order")
        ended = await self.orders.ended(buildset)
        if ended is None:
            if asked.request is not None:  # people change the priority of what they asked for
                await self.orders.priority(buildset, asked.priority)
            return None
        end, note = ended
        # Before the decision is closed: a kill between the two finds both still to be done.
        await self.memory.do(lambda ledger: self.ward.after(ledger, decision, end, note))
        kernel = decision.stage is DecisionStage.KERNEL
        own = kernel or decision.testbed == asked.question.testbed
        earlier = await self.memory.do(partial(_earlier, decision=decision))
        stops = sum(was_stopped(one.note) for one in earlier)
        tries = 1 + (stops if end is End.SHUT_DOWN else len(earlier) - stops)
        most = MOST_STOPS if end is End.SHUT_DOWN else MOST_TRIES
        again = own and (end is End.FAILED or (end is End.LAB and kernel))
        if (again or end is End.SHUT_DOWN) and tries < most:
            await self.memory.do(lambda ledger: ledger.retry(decision.id, note))
            return end
        outcome = _OUTCOMES.get(end, Ended.LOST)
        await self.memory.do(lambda ledger: ledger.finish(decision.id, outcome, note))
        if end in (End.OK, End.DUD) or not own:
            return end  # the trouble of another testbed is not that of the question
        if end is End.CANCELLED and asked.request is not None:
            await self.memory.do(partial(self._hold, request=asked.request, note=note))
            return None
        if end is End.LAB and not isinstance(asked.question, Night):
            held = await self.ward.held(asked)
            if held is not None:
                return end  # it waits for the release
        return Unfinished(_why_not(decision, end, note, tries))

    def _hold(self, ledger: Ledger, *, request: int, note: str) -> None:
        """Cancels a request of which somebody has stopped an order on Buildbot's pages."""
        why = f"an order of it was cancelled: {note}"
        said = f"Request {request} was cancelled on the web pages: {why}."
        ledger.cancel_request(
            request,
            who="somebody",
            via="the web pages",
            why=why,
            letter=answers.news(ledger, self.settings, request, said),
        )

    async def _submit(self, asked: Asked, decision: Decision) -> int:
        """The buildset of a decision: an orphan that carries its id, one ahead, or a new one."""
        orphan = await self.orders.called(decision.external_id)
        if orphan is not None:
            number = int(orphan["bsid"])
            log.msg(f"question {asked.id}: adopting buildset {number} of {decision.external_id}")
            return number
        adopted = await self.foresight.adopt(asked, decision)
        if adopted is not None:
            return adopted
        properties: dict[str, Any] = {
            DECISION_PROPERTY: decision.id,
            "question": asked.id,
            "kernel_config": decision.config,
        }
        builder, priority = kernel_builder(decision.arch), asked.priority
        if decision.stage is not DecisionStage.KERNEL:
            evidence = await self.memory.do(partial(self.casework.kernels.evidence, asked=asked))
            properties[KERNEL_PROPERTY] = evidence.kernels[decision.revision].key
            properties["scenarios"] = list(asked.question.scenarios)
            properties[RUNS_PROPERTY] = decision.runs
            if isinstance(asked.question, Profiling):
                properties[PROFILE_PROPERTY] = asked.question.pps
            builder = bench_builder(decision.target)
            if decision.target != asked.question.testbed:
                priority = min(PRIORITY_GUEST, priority)
        elif decision.attempt > 1:
            properties[AVOIDED_PROPERTY] = await self._tried_on(decision)
        return await self.orders.give(
            decision.external_id,
            builder,
            decision.why,
            properties,
            branch=asked.question.branch,
            revision=commit_of(decision.revision),
            priority=priority,
        )

    async def _tried_on(self, decision: Decision) -> list[str]:
        """The workers on which earlier attempts at a decision came to nothing by themselves."""
        names: set[str] = set()
        for one in await self.memory.do(partial(_earlier, decision=decision)):
            if one.buildset is not None and not was_stopped(one.note):
                names |= await self.orders.workers_of(one.buildset)
        return sorted(names)


def _earlier(ledger: Ledger, decision: Decision) -> list[Decision]:
    """The attempts at a decision before this one."""
    attempts = [one for one in ledger.decisions(decision.question) if one.seq == decision.seq]
    return [one for one in attempts if one.attempt < decision.attempt]


_OUTCOMES = {End.OK: Ended.OK, End.DUD: Ended.DUD, End.CANCELLED: Ended.CANCELLED}


def _why_not(decision: Decision, end: End, note: str, tries: int) -> str:
    what = "the kernel" if decision.stage is DecisionStage.KERNEL else "the visit"
    tried = end in (End.FAILED, End.SHUT_DOWN)
    tried = tried or (end is End.LAB and decision.stage is DecisionStage.KERNEL)
    said = f" in {tries} tries" if tried else ""
    return (
        f"{what} of {decision.revision[:12]} on {decision.target} has no result{said}: "
        f"{end.value}: {note}"
    )
