"""Whose turn it is among the people who ask: nobody's many requests crowd out another's one.

Of one person there is one visit at a time in the queue of a testbed, and as many builds as there
are builders. What is ordered next stands behind what others have ordered meanwhile, so that people
take turns within a priority, however much each of them asks for.
"""

from __future__ import annotations

from netbisect.bisect.model import Measurement
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, Decision, DecisionStage
from netbisect.workers.lab import Lab

_DAY = 86400.0


def why_waiting(
    ledger: Ledger, settings: Settings, lab: Lab, asked: Asked, stage: DecisionStage, where: str
) -> str:
    """Why a question of a request gets no such order now, in words; "" when it does.

    Args:
        ledger: Where the orders are.
        settings: With the limits.
        lab: For the builders.
        asked: The question.
        stage: Of the order.
        where: The testbed that it is for.
    """
    who = asked.requested_by
    testbed = lab.testbed(where)
    theirs = [
        one for one in _ordered(ledger, who) if one.question != asked.id and one.stage is stage
    ]
    if stage is DecisionStage.KERNEL:
        builders = sum(builder.arch == testbed.arch for builder in lab.builders)
        building = sum(one.arch == testbed.arch for one in theirs)
        return f"other kernels are built for {who}" if building >= builders else ""
    if any(one.target == testbed.name for one in theirs):
        return f"another request of {who} is on {testbed.name}"
    most = settings.requests.boots_per_day
    if ledger.boots_for(who, ledger.clock() - _DAY) >= most:
        return f"{who} had {most} boots in 24 hours"
    return ""


def _ordered(ledger: Ledger, who: str) -> list[Decision]:
    """What is under way for somebody's requests."""
    of_requests = {
        one.id
        for one in ledger.open_questions()
        if one.request is not None and one.requested_by == who
    }
    return [one for one in ledger.open_decisions() if one.question in of_requests]


def is_made(ledger: Ledger, asked: Asked, revision: str) -> bool:
    """Whether a boot that a measurement wants next is being made for another one, and counts."""
    question = asked.question
    if not isinstance(question, Measurement):
        return False
    for decision in ledger.open_decisions():
        if decision.stage is not DecisionStage.TRIAL or decision.question == asked.id:
            continue
        if (decision.target, decision.revision) != (question.testbed, revision):
            continue
        other = ledger.question(decision.question)
        if (
            isinstance(other.question, Measurement)
            and other.request != asked.request
            and other.priority >= asked.priority
            and set(question.scenarios) <= set(other.question.scenarios)
            and decision.intended_at >= question.shared_since
        ):
            return True
    return False
