"""What follows from the answers to a request's questions: the next question, or its answer."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Confirmed,
    Finding,
    Measured,
    Measurement,
    Question,
)
from netbisect.reports import requests as telling
from netbisect.steps import request_answer as answers
from netbisect.steps import request_files, searches
from netbisect.steps.settings import Settings
from netbisect.store.history import History
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, QuestionState, Request, RequestState
from netbisect.workers.lab import Lab

_HOUR = 3600.0


def conclude(
    ledger: Ledger,
    settings: Settings,
    lab: Lab,
    history: History,
    asked: Asked,
    finding: Finding,
) -> list[Asked]:
    """Closes a question of a request; returns what follows from it.

    When nothing follows and no other question of the request is open, the request has its answer,
    which is written down and mailed with it, or not at all.
    """
    assert asked.request is not None
    request = ledger.request(asked.request)
    parts = [
        replace(one, finding=finding, state=QuestionState.CLOSED) if one.id == asked.id else one
        for one in ledger.parts_of(request.id)
    ]
    further, run = _further(ledger, lab, history, request, parts, asked, finding)
    done = further is None and all(one.state is QuestionState.CLOSED for one in parts)
    answer = answers.answer(ledger, settings, lab, request, parts) if done else None
    with ledger.closing(asked, finding) as closing:
        if further is not None:
            return [closing.ask_more(further, run=run)]
        if answer is not None:
            failed = answer.verdict == answers.FAILED
            closing.end_request(
                state=RequestState.FAILED if failed else RequestState.ANSWERED,
                verdict=answer.verdict,
                why=answer.sentence,
                letter=telling.letter(answer),
            )
    if answer is not None:
        with contextlib.suppress(OSError):  # the answer stands; its page is made at the next start
            request_files.write(ledger, settings, lab, history, ledger.request(request.id))
    return []


def _further(
    ledger: Ledger,
    lab: Lab,
    history: History,
    request: Request,
    parts: list[Asked],
    asked: Asked,
    finding: Finding,
) -> tuple[Question | None, int]:
    """The question that follows, and its run; None when nothing does."""
    question, testbed = asked.question, asked.question.testbed
    if isinstance(question, Measurement) and isinstance(finding, Measured):
        asked_runs = {one.run for one in parts if one.question.testbed == testbed}
        if asked.run < request.wish["runs"] and asked.run + 1 not in asked_runs:
            return replace(question, shared_since=math.inf), asked.run + 1
    if isinstance(question, Comparison) and isinstance(finding, Confirmed):
        searched = any(
            isinstance(one.question, Bisection) and one.question.testbed == testbed for one in parts
        )
        commits, _ = searches.commits_between(ledger, history, question)
        search = searches.search(ledger, lab.testbed(testbed), question, finding, commits)
        if search is not None and not searched:
            return replace(search, budget_seconds=request.wish["hours"] * _HOUR), asked.run
    return None, asked.run
