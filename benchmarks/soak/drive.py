"""The conductor without Buildbot: its orders are kept in a list, and carried out one by one.

All that decides and remembers is the service's own: conductor, ward, foresight, homecoming,
casework and ledger. What is not there is Buildbot, with its database, processes and pages.
"""

from __future__ import annotations

import itertools
import pickle
import sqlite3
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from buildbot.process.results import CANCELLED, FAILURE, SUCCESS

from benchmarks.soak.world import BUILD_SECONDS, World
from netbisect.bisect.model import Kernel, Profile
from netbisect.bisect.wire import dumps
from netbisect.steps import conductor as service
from netbisect.steps.absence import Absence
from netbisect.steps.casework import Casework
from netbisect.steps.conductor import Conductor
from netbisect.steps.foresight import Foresight
from netbisect.steps.homecoming import Homecoming
from netbisect.steps.kernels import as_ordered
from netbisect.steps.lab_step import (
    DECISION_PROPERTY,
    KERNEL_PROPERTY,
    PROFILE_PROPERTY,
    RUNS_PROPERTY,
)
from netbisect.steps.orders import End, judge
from netbisect.steps.post import compose
from netbisect.steps.settings import Settings
from netbisect.steps.sharing import Sharing
from netbisect.steps.visits import folder_of
from netbisect.steps.ward import Ward
from netbisect.store.ledger import Ledger
from netbisect.workers.artefact import FACT
from netbisect.workers.lab import Lab

T = TypeVar("T")
_VISIT_SECONDS = 300.0


@dataclass
class Order:
    """What was ordered."""

    number: int
    name: str
    builder: str
    properties: Mapping[str, Any]
    revision: str | None
    priority: int
    submitted_at: float
    until: float | None = None
    """When it ends; None before it has begun."""
    results: int | None = None
    state: str = ""
    lab_exit: int | None = None
    complete_at: float | None = None

    def shown(self) -> dict[str, Any]:
        """As Buildbot's data API describes it."""
        return {
            "bsid": self.number,
            "external_idstring": self.name,
            "complete": self.results is not None,
            "results": -1 if self.results is None else self.results,
            "submitted_at": self.submitted_at,
            "complete_at": self.complete_at,
        }


@dataclass
class Book:
    """Takes orders as `steps/orders.py` does.

    Those that have ended are in a file, as they are with Buildbot, and take no memory.
    """

    clock: Callable[[], float]
    builders: int
    path: Path
    waiting: list[Order] = field(default_factory=list)
    """Without an end."""
    given: int = 0

    def __post_init__(self) -> None:
        self._file = sqlite3.connect(self.path, isolation_level=None)
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute("CREATE TABLE ended (number INTEGER PRIMARY KEY, name, told)")
        self._file.execute("CREATE INDEX by_name ON ended (name)")

    def _known(self, number: int) -> Order:
        """One by its number."""
        for order in self.waiting:
            if order.number == number:
                return order
        [found] = self._ended("SELECT told FROM ended WHERE number = ?", number)
        return found

    def _ended(self, query: str, what: object) -> list[Order]:
        rows = self._file.execute(query, (what,))
        return [pickle.loads(told) for (told,) in rows]  # noqa: S301 - our own file

    async def give(
        self,
        name: str,
        builder: str,
        reason: str,
        properties: Mapping[str, Any],
        *,
        branch: str | None = None,
        revision: str | None = None,
        priority: int = 0,
    ) -> int:
        del reason, branch
        known = await self.called(name)
        assert known is None or name.startswith("nb:recover"), f"{name} is given twice"
        self.given += 1
        order = Order(self.given, name, builder, properties, revision, priority, self.clock())
        self.waiting.append(order)
        return self.given

    async def called(self, name: str) -> dict[str, Any] | None:
        found = self._ended("SELECT told FROM ended WHERE name = ?", name)
        found += [one for one in self.waiting if one.name == name]
        return max(found, key=lambda one: one.number).shown() if found else None

    async def containing(self, part: str, *, unfinished: bool = False) -> list[dict[str, Any]]:
        found = [one for one in self.waiting if part in one.name]
        if not unfinished:
            found += self._ended("SELECT told FROM ended WHERE instr(name, ?)", part)
        return [one.shown() for one in sorted(found, key=lambda one: one.number)]

    async def ended(self, number: int) -> tuple[End, str] | None:
        order = self._known(number)
        if order.results is None:
            return None
        return judge(order.results, order.state, order.lab_exit), order.state

    async def waiting_at(self, builder: str) -> int:
        return sum(one.builder == builder for one in self.waiting)

    async def attended(self, builder: str) -> bool:
        return bool(builder)

    def is_there(self, worker: str) -> bool:
        return bool(worker)

    async def call_off(self, number: int, why: str) -> bool:
        order = self._known(number)
        if order.results is None and order.until is not None:
            return False
        if order.results is None:
            self.end(order, CANCELLED, why)
        return True

    async def stop(self, number: int, why: str) -> None:
        self.end(self._known(number), CANCELLED, why)

    async def priority(self, number: int, priority: int) -> None:
        for one in self.waiting:
            if one.number == number:
                one.priority = priority

    async def workers_of(self, number: int) -> set[str]:
        return {self._known(number).builder}

    def end(self, order: Order, results: int, state: str, lab_exit: int | None = None) -> None:
        """Closes one."""
        order.results, order.state, order.lab_exit = results, state, lab_exit
        order.complete_at = self.clock()
        self.waiting.remove(order)
        row = (order.number, order.name, pickle.dumps(order))
        self._file.execute("INSERT INTO ended VALUES (?, ?, ?)", row)

    def begin(self) -> None:
        """What can begin now does: one at a time on a testbed, as many builds as builders."""
        busy = {}
        for one in self.waiting:
            if one.until is not None:
                busy[_place(one)] = busy.get(_place(one), 0) + 1
        for one in sorted(self.waiting, key=lambda one: (-one.priority, one.number)):
            builds = one.builder.startswith("kernel-")
            if one.until is None and busy.get(_place(one), 0) < (self.builders if builds else 1):
                busy[_place(one)] = busy.get(_place(one), 0) + 1
                one.until = self.clock() + (BUILD_SECONDS if builds else _VISIT_SECONDS)


def _place(order: Order) -> str:
    """Where only one can be at a time."""
    kind, _, rest = order.builder.partition("-")
    return order.builder if kind == "kernel" else rest


class _Direct:
    """A `Memory` without threads."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def do(self, work: Callable[[Ledger], T]) -> T:
        return work(self.ledger)


async def _tidy(*_: object) -> str:
    """Kernels take no room here."""
    return ""


class Clock:
    """The time in the lab."""

    def __init__(self, start: float) -> None:
        self.at = start

    def __call__(self) -> float:
        return self.at


class Service:
    """A conductor with its book, on a simulated clock."""

    def __init__(
        self, settings: Settings, lab: Lab, ledger: Ledger, world: World, clock: Clock
    ) -> None:
        self.settings, self.lab, self.ledger, self.world = settings, lab, ledger, world
        self.clock = clock
        self.book = Book(clock, len(lab.builders), settings.state / "orders.sqlite")
        self.lost = itertools.count()
        memory: Any = _Direct(ledger)
        orders: Any = self.book
        one: Any = object.__new__(Conductor)  # its __init__ is that of a service of Buildbot
        one.settings, one.lab, one.memory = settings, lab, memory
        one.casework = Casework(settings, lab)
        one.orders = orders
        one.foresight = Foresight(orders, memory, one.casework.kernels)
        one.ward = Ward(settings, lab, orders, memory)
        one.sharing = Sharing(settings, lab, orders, memory)
        one.absence = Absence(settings, lab, orders, memory)
        one.homecoming = Homecoming(lab, orders, memory, one.ward, one.sharing)
        nobody = SimpleNamespace(mq=SimpleNamespace(produce=lambda *_: None))
        one.parent = SimpleNamespace(master=nobody)
        one._wanted, one._waits = False, {}
        self.conductor = one
        service.tidy = _tidy

    def look(self) -> None:
        """As the conductor does when something has ended."""
        _through(self.conductor._advance_all())

    def run(self) -> None:
        """Until nothing is left to do, or until all that is asked waits for somebody."""
        self.look()
        while self.book.waiting:
            self.book.begin()
            soonest = min(one.until for one in self.book.waiting if one.until is not None)
            self.clock.at = max(self.clock.at, soonest)
            for order in [one for one in self.book.waiting if one.until == soonest]:
                self._carry_out(order)
            # Once for all that ended meanwhile, as the service's conductor does.
            self.look()
            self._post()

    def _post(self) -> None:
        for mail in self.ledger.due_mails(self.clock()):
            compose(mail, self.settings.mail)
            self.ledger.mail_sent(mail.id)

    def _carry_out(self, order: Order) -> None:
        kind, _, place = order.builder.partition("-")
        if kind == "kernel":
            status = self._build(order)
        elif kind == "recover":
            status = 0
        elif PROFILE_PROPERTY in order.properties:
            status = self._profile(order, place)
        else:
            status = self._visit(order, place)
            while status == -1:  # Buildbot gives it again
                status = self._visit(order, place)
        results = SUCCESS if status == 0 else FAILURE
        self.book.end(order, results, f"exit status {status}", status)

    def _tell(self, order: Order, fact: Any) -> None:
        decision = order.properties.get(DECISION_PROPERTY)
        told = as_ordered(self.ledger, fact, decision)
        self.ledger.record(told, decision)

    def _build(self, order: Order) -> int:
        config = order.properties["kernel_config"]
        assert order.revision is not None
        made = self.world.build(order.revision, config, self.clock())
        self._tell(order, made)
        if not isinstance(made, Kernel):
            return 3
        place = self.settings.kernels / made.key
        place.mkdir(parents=True, exist_ok=True)
        (place / FACT).write_text(dumps(made))
        return 0

    def _kernel(self, order: Order) -> Kernel:
        decision = self.ledger.decision(order.properties[DECISION_PROPERTY])
        key = order.properties[KERNEL_PROPERTY]
        asked = self.ledger.question(decision.question)
        evidence = self.conductor.casework.kernels.evidence(self.ledger, asked)
        kernel: Kernel = evidence.kernels[decision.revision]
        assert kernel.key == key
        return kernel

    def _visit(self, order: Order, testbed: str) -> int:
        kernel, status = self._kernel(order), None
        scenarios, runs = order.properties["scenarios"], order.properties[RUNS_PROPERTY]
        for fact, ended in self.world.visit(testbed, kernel, scenarios, runs, self.clock()):
            self._tell(order, fact)
            status = ended
        assert status is not None
        return status

    def _profile(self, order: Order, testbed: str) -> int:
        kernel = self._kernel(order)
        scenario = order.properties["scenarios"][0]
        seen: Profile = self.world.profile(testbed, kernel, scenario, self.clock())
        place: Path = folder_of(self.settings, order.properties[DECISION_PROPERTY])
        place.mkdir(parents=True, exist_ok=True)
        (place / f"profile-{scenario}.folded").write_text("ether_input;ip_input 1000\n")
        (place / f"profile-{scenario}.json").write_text(dumps(seen))
        return 0


def _through(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        value: T = ended.value
        return value
    raise AssertionError("it waits for something that is not there")
