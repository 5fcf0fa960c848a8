"""Calls of the API, independent of HTTP; they run in the database thread."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from netbisect.reports.documents import api
from netbisect.reports.documents.openapi import MOST_LETTERS, MOST_LISTED
from netbisect.reports.model import types
from netbisect.steps.policy.request_spec import InvalidRequestError
from netbisect.steps.queries.revision import answer, refusal
from netbisect.steps.requests.api_bodies import CallError, check_patches, parse_body
from netbisect.steps.requests.service import RequestService
from netbisect.steps.service.rights import MissingRightError, Right, User
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import AuditEntry, Request, RequestState
from netbisect.store.db.tables import record_of
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.mirror import HistoryError
from netbisect.store.git.resolve import resolve
from netbisect.store.ledger import Ledger

REFUSALS = (InvalidRequestError, MissingRightError, CallError, StoreError, HistoryError)
"""Errors of an operation to show to its user."""
_DEFAULT_LIMIT = 100
"""Length of a list without `limit`."""
BODIES: Mapping[str, type[Any]] = {
    "ask": api.AskBody,
    "cancel": api.CancelBody,
    "resume": api.ResumeBody,
    "extend": api.ExtendBody,
    "priority": api.PriorityBody,
}
"""By verb."""
_NUMBER = re.compile("[1-9][0-9]{0,8}")


def write_json(
    service: RequestService, user: User, verb: str, number: int | None, content: bytes
) -> types.RequestDocument | api.CostEstimate:
    """As `write`, with a body of untrusted JSON; also raises CallError."""
    user.require(Right.ASK, "asking")  # before parsing
    body = parse_body(content, BODIES[verb])
    if isinstance(body, api.AskBody):
        check_patches(body.patches)
    return write(service, user, verb, number, body)


def write(
    service: RequestService, user: User, verb: str, number: int | None, body: Any
) -> types.RequestDocument | api.CostEstimate:
    """Submits a request, estimates its cost, or changes the request with this number.

    Raises InvalidRequestError, MissingRightError and StoreError.
    """
    with service.ledger.acting(user.origin):
        if number is not None:
            getattr(service, verb)(user, number, body)
        elif body.dry_run:
            return service.estimate(user, body)
        else:
            number = service.ask(user, body).id
    return service.document(number)


def read(
    service: RequestService, user: User | None, path: Sequence[str], query: Mapping[str, str]
) -> Any:
    """Answers a GET. Raises CallError, MissingRightError and StoreError."""
    match path:
        case ("caller",):
            rights = sorted(right.value for right in Right if user and user.has_right(right))
            return api.Caller(who=user.name if user else "", rights=tuple(rights))
        case ("requests",):
            return _requests(service, query)
        case ("requests", text):
            return service.document(number_of(text))
        case ("requests", text, "log"):
            return _log(service, number_of(text))
        case ("revisions",):
            return _revision(service, query)
        case ("audit",) if user is not None:
            user.require(Right.ADMIN, "the audit log")
            return _audit(service, query)
    raise CallError(404, "not found")


def number_of(text: str) -> int:
    """The number of a request in a path. Raises CallError for another text."""
    if not _NUMBER.fullmatch(text):
        raise CallError(404, f"there is no request {text[:MOST_LETTERS]}")
    return int(text)


def log_refusal(ledger: Ledger, user: User, verb: str, why: str, number: int | None) -> None:
    """Adds a refused call to the audit log; calls of strangers would fill the disk."""
    with ledger.acting(user.origin):
        ledger.requests.add_audit_entry(
            "refuse",
            who=user.name,
            via=user.via,
            data={
                "what_for": verb,
                "why": why[:MOST_LETTERS],
                **({} if number is None else {"number": number}),
            },
        )


def _requests(service: RequestService, query: Mapping[str, str]) -> api.RequestList:
    _check_query(query, {"who", "state", "limit"})
    state = query.get("state")
    if state is not None and state not in set(RequestState):
        raise CallError(400, f"state: expected one of {', '.join(RequestState)}")
    found = service.ledger.requests.all(
        who=query.get("who"),
        state=None if state is None else RequestState(state),
        last=_number(query, "limit", _DEFAULT_LIMIT, 1, MOST_LISTED),
    )
    return api.RequestList(requests=tuple(_line(service.ledger, one) for one in found))


def _line(ledger: Ledger, request: Request) -> api.RequestLine:
    parameters = request.parameters
    return record_of(
        api.RequestLine,
        request,
        number=request.id,
        state=request.state.value,
        subjects=tuple(parameters["subjects"]),
        labels=tuple(ledger.commits.label(name) for name in parameters["subjects"]),
        testbeds=tuple(parameters["testbeds"]),
    )


def _log(service: RequestService, number: int) -> api.RequestLog:
    service.ledger.requests.get(number)
    found = service.ledger.requests.audit(request=number)
    lines = (record_of(api.LogLine, one, number=one.id, data=_data(one)) for one in found)
    return api.RequestLog(number=number, entries=tuple(lines))


def _audit(service: RequestService, query: Mapping[str, str]) -> api.Audit:
    _check_query(query, {"after", "limit"})
    found = service.ledger.requests.audit(
        after=_number(query, "after", 0, 0, 2**31 - 1),
        limit=_number(query, "limit", _DEFAULT_LIMIT, 1, MOST_LISTED),
    )
    lines = (record_of(api.AuditLine, one, number=one.id, data=_data(one)) for one in found)
    return api.Audit(entries=tuple(lines))


def _revision(service: RequestService, query: Mapping[str, str]) -> api.RevisionMatches:
    _check_query(query, {"name"})
    name, history = query.get("name", ""), service.history
    if not name:
        raise CallError(400, "name: expected the name of a revision, such as ?name=r311849")
    try:
        found = resolve(history, name, default_branch=service.settings.branches[0])
    except RevisionError as error:
        raise CallError(422, refusal(error)) from error
    return answer(history, name, found)


def _data(entry: AuditEntry) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in entry.data.items()
    }


def _check_query(query: Mapping[str, str], known: set[str]) -> None:
    unknown = sorted(set(query) - known)
    if unknown:
        raise CallError(
            400,
            f"{unknown[0][:MOST_LETTERS]}: unknown parameter; expected {', '.join(sorted(known))}",
        )
    for name, text in query.items():
        if len(text) > MOST_LETTERS or not text.isprintable():
            raise CallError(400, f"{name}: expected at most {MOST_LETTERS} printable characters")


def _number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, str(default))
    # isdigit() accepts digits of other scripts, too.
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise CallError(400, f"{name}: expected a number from {least} to {most}")
    return int(text)
