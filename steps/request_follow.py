"""Following a request: how far it is, what stands before it, what happened; all in one document."""

from __future__ import annotations

import math
from dataclasses import asdict

from netbisect.bisect import measurement
from netbisect.bisect.model import (
    Boot,
    Comparison,
    Evidence,
    Measured,
    Measurement,
    Night,
    Prices,
    Profiling,
)
from netbisect.reports import documents as told
from netbisect.reports import words
from netbisect.reports.requests import Answer
from netbisect.steps import document_parts as parts
from netbisect.steps import request_answer as answers
from netbisect.steps import turns
from netbisect.steps.kernels import Kernels
from netbisect.steps.request_cost import boots_wanted, cost_of
from netbisect.steps.settings import Settings
from netbisect.steps.wish import PRIORITIES
from netbisect.store.history import History
from netbisect.store.ledger import Ledger
from netbisect.store.records import (
    Asked,
    DecisionStage,
    QuestionState,
    RequestState,
)
from netbisect.workers.lab import Lab


def follow(
    ledger: Ledger, settings: Settings, lab: Lab, history: History, number: int
) -> told.Request:
    """All that is known of a request.

    Raises:
        StoreError: there is none.
    """
    request = ledger.request(number)
    asked = ledger.parts_of(number)
    answer = answers.answer(ledger, settings, lab, request, asked)
    view = _View(ledger, settings, lab, Kernels(lab, history))
    over = request.state in {RequestState.ANSWERED, RequestState.FAILED}
    wish = request.wish
    return told.Request(
        number=number,
        kind=parts.request_kind(request.kind),
        state=parts.request_state(request.state),
        verdict=request.verdict,
        status=answers.exit_status(request) if over else None,
        sentence=request.why,
        who=request.who,
        via=request.via,
        priority=_priority(request.priority),
        branch=wish["branch"],
        subjects=tuple(wish["subjects"]),
        labels=tuple(ledger.label(one) for one in wish["subjects"]),
        boots=wish["boots"],
        runs=wish["runs"],
        margin_percent=wish["margin_percent"],
        parts=tuple(view.part(one) for one in asked),
        differences=_differences(answer),
        repeats=tuple(
            told.SecondRun(
                testbed, one.scenario, subject, one.ln_ratio, one.low, one.high, one.consistent
            )
            for testbed, subject, one in answer.repeats
        ),
        spent=told.Spent(**asdict(ledger.cost([one.id for one in asked]))),
        opened_at=request.opened_at,
        closed_at=request.closed_at,
        history=tuple(
            told.RequestDeed(one.at, one.who, one.via, parts.deed(one.what))
            for one in ledger.audit(request=number)
        ),
        address=settings.request_address(number),
    )


def _priority(number: int) -> str:
    return next((name for name, value in PRIORITIES.items() if value == number), str(number))


def _differences(answer: Answer) -> tuple[told.Compares, ...]:
    return tuple(
        told.Compares(
            testbed=line.testbed,
            run=line.run,
            scenario=line.scenario,
            subject=line.subject,
            difference=parts.difference(line.effect) if line.effect else None,
            code_low=_finite(line.low) if line.effect else None,
            code_high=_finite(line.high) if line.effect else None,
            word=line.word.value,
            why=line.why,
        )
        for line in answer.lines
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class _View:
    """Looks at the questions of a request, each amid what else is asked of its testbed."""

    def __init__(self, ledger: Ledger, settings: Settings, lab: Lab, kernels: Kernels) -> None:
        self._ledger = ledger
        self._settings = settings
        self._lab = lab
        self._kernels = kernels
        self._prices: dict[str, Prices] = {}
        self._open = ledger.open_questions()
        self._left: dict[int, float] = {}

    def part(self, asked: Asked) -> told.RequestPart:
        """A question of a request."""
        question = asked.question
        still = asked.state is QuestionState.OPEN
        evidence = self._kernels.evidence(self._ledger, asked)
        ahead = self._ahead(asked) if still else []
        left = self._seconds(asked) + sum(self._before(asked, one) for one in ahead)
        finding = asked.finding
        sentence = ""
        if finding is not None and not isinstance(finding, Measured):
            sentence = words.sentence(
                finding, self._ledger.label, lambda name: answers.title_of(self._lab, name)
            )
        return told.RequestPart(
            question=asked.id,
            kind=parts.kinds(asked),
            testbed=question.testbed,
            run=asked.run,
            scenarios=question.scenarios,
            state=asked.state.value,
            boots=self._boots(asked, evidence),
            boots_wanted=boots_wanted(question),
            place=self._place(ahead) if still else None,
            seconds_left=left if still else None,
            now=self._now(asked) if still else "",
            sentence=sentence,
        )

    def _boots(self, asked: Asked, evidence: Evidence) -> int:
        question = asked.question
        if isinstance(question, Measurement):
            return boots_wanted(question) - measurement.remaining(question, evidence)
        return sum(isinstance(fact, Boot) for fact in self._ledger.facts_of(asked.id))

    def _now(self, asked: Asked) -> str:
        held = self._ledger.quarantined().get(asked.question.testbed)
        if held is not None:
            return f"waits: {held.testbed} is in quarantine: {words.clean(held.why)}"
        orders = []
        for decision in self._ledger.open_decisions(asked.id):
            what = "builds" if decision.stage is DecisionStage.KERNEL else "measures"
            orders.append(f"{what} {self._ledger.label(decision.revision)}: {decision.why}")
        if orders:
            return "; ".join(orders)
        for stage in (DecisionStage.TRIAL, DecisionStage.KERNEL):
            why = turns.why_waiting(
                self._ledger, self._settings, self._lab, asked, stage, asked.question.testbed
            )
            if why:
                return f"waits: {why}"
        return "waits for its next order"

    # --------------------------------------------------------------------------------- the queue

    def _ahead(self, asked: Asked) -> list[Asked]:
        """What is asked of the same testbed and has its turn before, or in turns with it."""
        found = []
        for one in self._open:
            if one.id == asked.id or one.question.testbed != asked.question.testbed:
                continue
            same_person = one.requested_by == asked.requested_by and one.request is not None
            if one.priority > asked.priority or (
                one.priority == asked.priority and (not same_person or one.id < asked.id)
            ):
                found.append(one)
        return found

    def _place(self, ahead: list[Asked]) -> int:
        """1 is whose turn it is, or who takes turns with others from the beginning."""
        return 1 + len({one.request or -one.id for one in ahead})

    def _before(self, asked: Asked, other: Asked) -> float:
        """Seconds for which another question keeps this one waiting."""
        seconds = self._seconds(other)
        turns_with = other.priority == asked.priority and other.requested_by != asked.requested_by
        return min(seconds, self._seconds(asked)) if turns_with else seconds

    def _seconds(self, asked: Asked) -> float:
        """Of the testbed and of one builder, that a question takes from now on, at most."""
        if asked.id not in self._left:
            self._left[asked.id] = self._seconds_of(asked)
        return self._left[asked.id]

    def _seconds_of(self, asked: Asked) -> float:
        question = asked.question
        if question.testbed not in self._prices:
            self._prices[question.testbed] = self._ledger.prices(question.testbed)
        prices = self._prices[question.testbed]
        if isinstance(question, Night | Comparison | Profiling) or asked.request is None:
            made = sum(isinstance(fact, Boot) for fact in self._ledger.facts_of(asked.id))
            visit = prices.boot + prices.run * len(question.scenarios)
            return max(boots_wanted(question) - made, 0) * visit
        evidence = self._kernels.evidence(self._ledger, asked)
        cost = cost_of(question, evidence, prices)
        return cost.seconds + len(cost.builds) * prices.build
