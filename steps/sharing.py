"""Sharing: which testbeds measure for a search at this moment, and what each is to know.

A search may use the testbeds of its group besides its own. They are guests there: only while
nothing is asked of such a testbed itself, one visit after the other, and what has not begun is
taken back as soon as something is. A testbed that comes to nothing is left alone; it never ends
the search of another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from netbisect.bisect.meanwhile import Meanwhile
from netbisect.bisect.model import Bisection, Prices, Visit, split_kernel_name
from netbisect.reports import words
from netbisect.steps.builders import bench_builder, kernel_builder
from netbisect.steps.memory import Memory
from netbisect.steps.orders import Orders
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, Decision, DecisionStage, Quarantine
from netbisect.workers.lab import Lab

PRIORITY_GUEST = 10
"""Of a visit to a testbed that is another one's: below all that is asked of that one itself."""
MOST_FRUITLESS = 2
"""Visits in a row without a sample after which a search leaves the testbed of another one alone."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a question may be measured now."""

    open: tuple[str, ...]
    """Testbeds that may be given something, that of the question first."""
    shut: Mapping[str, str] = field(default_factory=dict)
    """By testbed of the question that may not: why."""
    held: Quarantine | None = None
    """Of the testbed that the question is about."""


def others_of(asked: Asked) -> tuple[str, ...]:
    """The testbeds that may help with a question."""
    question = asked.question
    return question.testbeds[1:] if isinstance(question, Bisection) else ()


def shut_by_facts(ledger: Ledger, settings: Settings, lab: Lab, asked: Asked) -> dict[str, str]:
    """By testbed that could help with a question and must not now: why, in words."""
    others = others_of(asked)
    if not others:
        return {}
    own = asked.question.testbed
    mates = lab.mates(lab.testbed(own)) if settings.search.use_groups else ()
    quarantined = ledger.quarantined()
    wanted = {one.question.testbed: one for one in ledger.open_questions()}
    visited = {
        one.target
        for one in ledger.open_decisions()
        if one.stage is not DecisionStage.KERNEL and one.question != asked.id
    }
    shut = {}
    for name in others:
        if name not in {one.name for one in mates}:
            shut[name] = f"{name} is no longer of a group with {own}"
        elif name in quarantined:
            shut[name] = f"{name} is in quarantine: {quarantined[name].why}"
        elif name in wanted:
            what = type(wanted[name].question).__name__.lower()
            shut[name] = f"{name} has a {what} of its own"
        elif name in visited:
            shut[name] = f"{name} measures for another question"
        elif ledger.fruitless_visits(asked.id, name) >= MOST_FRUITLESS:
            often = words.count(MOST_FRUITLESS, "visit")
            shut[name] = f"the last {often} to {name} came to nothing"
    return shut


class Sharing:
    """Looks who is free; it keeps nothing."""

    def __init__(self, settings: Settings, lab: Lab, orders: Orders, memory: Memory) -> None:
        self._settings = settings
        self._lab = lab
        self._orders = orders
        self._memory = memory

    async def places(self, asked: Asked) -> Places:
        """Where a question may be measured now."""
        own = asked.question.testbed
        held, shut = await self._memory.do(
            lambda ledger: (
                ledger.quarantined().get(own),
                shut_by_facts(ledger, self._settings, self._lab, asked),
            )
        )
        for name in others_of(asked):
            if name not in shut and not await self._orders.attended(bench_builder(name)):
                shut[name] = f"the worker of {name} is away"
        if held is not None:
            shut[own] = f"{own} is in quarantine: {held.why}"
        free = [name for name in (own, *others_of(asked)) if name not in shut]
        return Places(tuple(free), shut, held)

    # ------------------------------------------------------------------------ what they know

    async def idle_builders(self, asked: Asked) -> int:
        """How many kernels may be ordered while something is under way.

        None where there is a single builder: what is under way may say that another one is wanted.
        """
        arch = self._lab.testbed(asked.question.testbed).arch
        builders = sum(builder.arch == arch for builder in self._lab.builders)
        if builders == 1 or not others_of(asked):
            return 0
        return max(0, builders - await self._orders.waiting_at(kernel_builder(arch)))

    @staticmethod
    def meanwhile(
        ledger: Ledger,
        asked: Asked,
        testbed: str,
        *,
        building: Mapping[str, float],
        builders: int,
        prices: Prices,
    ) -> Meanwhile:
        """What an idle testbed is to know of the others.

        Args:
            ledger: It knows what the others do.
            asked: For which question.
            testbed: The idle one.
            building: By revision that is built ahead: seconds until it is.
            builders: That are idle.
            prices: What actions cost, in seconds of the lab.
        """
        under_way = ledger.open_decisions(asked.id)
        kernels = [one for one in under_way if one.stage is DecisionStage.KERNEL]
        now = ledger.clock()
        left = {one.revision: max(0.0, one.intended_at + prices.build - now) for one in kernels}
        not_given = sum(one.buildset is None for one in kernels)
        return Meanwhile(
            building={**building, **left},
            may_build=not under_way or builders > not_given,
            testbed=testbed,
            under_way=tuple(map(_visit, under_way)),
        )


def _visit(decision: Decision) -> Visit:
    revision, layout = split_kernel_name(decision.revision)
    return Visit(revision, decision.why, None, decision.runs, decision.testbed, layout)
