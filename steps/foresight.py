"""Foresight: kernels that a search will want next are built while it waits or measures.

Where an architecture has several builders, all but one of them may build ahead; the last one is
kept for what is asked for now. Such an order is named
`nb:ahead:<question>:<arch>:<config>:<revision>:<attempt>`, and nothing else is remembered of it:
its kernel is a fact like any other, and whoever wants the kernel before it is ready adopts the
order instead of giving another one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from buildbot.process.results import CANCELLED

from netbisect.bisect import plan
from netbisect.bisect.model import Bisection
from netbisect.bisect.subject import OVERLAY_MARK
from netbisect.steps.builders import kernel_builder
from netbisect.steps.kernels import Kernels
from netbisect.steps.lab_step import DECISION_PROPERTY
from netbisect.steps.memory import Memory
from netbisect.steps.orders import Buildset, End, Orders
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, Decision, DecisionStage
from netbisect.workers.lab import Testbed

_NAME = "nb:ahead:"


@dataclass(frozen=True, slots=True)
class _Ahead:
    """An order that nobody had asked for when it was given."""

    buildset: Buildset
    arch: str
    config: str
    """With overlays, if there are any."""
    revision: str

    @property
    def number(self) -> int:
        """Of the buildset."""
        return int(self.buildset["bsid"])

    @property
    def complete(self) -> bool:
        """Whether it has ended, in whatever way."""
        return bool(self.buildset["complete"])


def _meant_for(arch: str, config: str, testbed: Testbed) -> bool:
    """Whether such a kernel is one for this testbed, whatever its overlays."""
    return (arch, config.partition(OVERLAY_MARK)[0]) == (testbed.arch, testbed.kernel_config)


class Foresight:
    """Orders kernels ahead, and finds those orders again."""

    def __init__(self, orders: Orders, memory: Memory, kernels: Kernels) -> None:
        self._orders = orders
        self._memory = memory
        self._kernels = kernels
        self._lab = kernels.lab
        self._seen: dict[int, tuple[object, ...]] = {}
        """By question: what was the case when nothing was worth ordering; it takes long to see."""

    async def under_way(self, asked: Asked) -> dict[str, float]:
        """By revision: since when a kernel that a search can use is built ahead, by the clock."""
        if not isinstance(asked.question, Bisection):
            return {}
        testbed = self._lab.testbed(asked.question.testbed)
        return {
            one.revision: float(one.buildset["submitted_at"])
            for one in await self._ordered(_NAME, unfinished=True)
            if _meant_for(one.arch, one.config, testbed)
        }

    async def adopt(self, asked: Asked, decision: Decision) -> int | None:
        """The order by which the kernel of a decision is being built already, if there is one.

        One that has ended since the decision was made is as good; an older one is not, for its
        kernel would be known, or is gone.
        """
        if decision.stage is not DecisionStage.KERNEL or decision.attempt > 1:
            return None
        for one in await self._ordered(f":{decision.revision}:"):
            if (one.arch, one.config) != (decision.arch, decision.config):
                continue
            if not one.complete:
                await self._orders.priority(one.number, asked.priority)
                return one.number
            if one.buildset["complete_at"] >= int(decision.intended_at):
                return one.number
        return None

    async def look(self, asked: Asked, decision: Decision) -> None:
        """Orders what a search will want after `decision`, as far as there are idle builders.

        Of several decisions that it waits for, any will do. Only a stop of the master lets the
        same be ordered again: what came to nothing otherwise is built when it is asked for, and
        tried again then.
        """
        question = asked.question
        testbed = self._lab.testbed(question.testbed)
        builders = sum(builder.arch == testbed.arch for builder in self._lab.builders)
        if not isinstance(question, Bisection) or builders == 1:
            return
        pending = await self._memory.do(lambda ledger: ledger.open_decisions())
        ahead = await self._ordered(f":{testbed.arch}:", unfinished=True)
        room = await self._room(testbed.arch, builders, pending, ahead)
        if room <= 0:
            return
        attempts, building = await self._tried(asked)
        building |= {one.revision for one in ahead if _meant_for(one.arch, one.config, testbed)} | {
            one.revision
            for one in pending
            if one.stage is DecisionStage.KERNEL and _meant_for(one.arch, one.config, testbed)
        }
        waits_for = frozenset(one.id for one in pending if one.question == asked.id)
        now = (waits_for, room, frozenset(building))
        if self._seen.get(asked.id) == now:
            return

        def wanted(ledger: Ledger) -> dict[str, str]:
            evidence = self._kernels.evidence(ledger, asked)
            prices = ledger.prices(testbed.name)
            found = plan.builds_ahead(question, evidence, prices, room, sorted(building))
            return {name: self._kernels.config_of(testbed, name) for name in found}

        configs = await self._memory.do(wanted)
        for revision, config in configs.items():
            kind = f"{testbed.arch}:{config}"
            name = f"{_NAME}{asked.id}:{kind}:{revision}:{attempts[revision] + 1}"
            await self._order(name, asked, decision, config, revision)
        if not configs:
            open_questions = {one.question for one in pending}
            self._seen = {one: seen for one, seen in self._seen.items() if one in open_questions}
            self._seen[asked.id] = now

    async def _room(
        self, arch: str, builders: int, pending: list[Decision], ahead: list[_Ahead]
    ) -> int:
        """How many kernels may be ordered ahead now."""
        adopted = {decision.buildset for decision in pending}
        unasked = sum(one.number not in adopted for one in ahead)
        busy = await self._orders.waiting_at(kernel_builder(arch))
        return min(builders - busy, builders - 1 - unasked)

    async def _order(
        self, name: str, asked: Asked, decision: Decision, config: str, revision: str
    ) -> None:
        await self._orders.give(
            name,
            kernel_builder(decision.arch),
            "built ahead: the search is likely to want it next",
            {
                DECISION_PROPERTY: decision.id,
                "question": asked.id,
                "kernel_config": config,
            },
            branch=asked.question.branch,
            revision=revision,
        )

    async def _tried(self, asked: Asked) -> tuple[Counter[str], set[str]]:
        """How often each revision was ordered ahead for a question; which stay as they are."""
        ordered = await self._ordered(f"{_NAME}{asked.id}:")
        attempts = Counter(one.revision for one in ordered)
        stay = set()
        for revision, last in {one.revision: one for one in ordered}.items():
            if last.buildset["results"] == CANCELLED:
                ended = await self._orders.ended(last.number)
                if ended is not None and ended[0] is End.SHUT_DOWN:
                    continue
            stay.add(revision)
        return attempts, stay

    async def _ordered(self, part: str, *, unfinished: bool = False) -> list[_Ahead]:
        """The orders that were given ahead with that in their names, oldest first."""
        found = []
        for buildset in await self._orders.containing(part, unfinished=unfinished):
            name = buildset["external_idstring"]
            if name.startswith(_NAME):
                _, arch, config, revision, _ = name.removeprefix(_NAME).split(":")
                found.append(_Ahead(buildset, arch, config, revision))
        return found
