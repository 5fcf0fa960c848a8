"""Operations of the API, independent of HTTP; they run in the database thread."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from netbisect.reports.documents import api, types
from netbisect.reports.documents.openapi import MOST_LETTERS, MOST_LISTED
from netbisect.steps.policy.request_spec import InvalidRequestError
from netbisect.steps.queries.request_status import follow
from netbisect.steps.queries.revision import answer, refusal
from netbisect.steps.requests import api_bodies
from netbisect.steps.requests.api_bodies import BodyError
from netbisect.steps.requests.service import RequestService
from netbisect.steps.service.rights import MissingRightError, Right, User
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import AuditEntry, Request, RequestState
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.mirror import HistoryError
from netbisect.store.git.resolve import resolve

REFUSALS = (InvalidRequestError, MissingRightError, BodyError, StoreError, HistoryError)
"""Errors of an operation to show to its user."""
_DEFAULT_LIMIT = 100
"""Length of a list without `limit`."""
_HIGH = "high"


class UnresolvedRevisionError(Exception):
    """The name of a revision is unknown or ambiguous."""

    def __init__(self, refusal: api.Refusal) -> None:
        super().__init__(refusal.error)
        self.refusal = refusal


class QueryError(Exception):
    """Invalid query parameters."""


@dataclass(frozen=True, slots=True)
class RequestApi:
    """Operations of the API.

    All methods that take `content` raise BodyError, InvalidRequestError, MissingRightError and
    StoreError.
    """

    service: RequestService

    # ------------------------------------------------------------------------------ submit, change

    def ask(self, user: User, content: bytes) -> api.CostEstimate | types.RequestDocument:
        """Submits a request, or estimates its cost."""
        user.require(Right.ASK, "asking")  # before parsing
        return self.ask_parsed(user, api_bodies.parse_body(content, api.AskBody))

    def ask_parsed(self, user: User, body: api.AskBody) -> api.CostEstimate | types.RequestDocument:
        user.require(Right.ASK, "asking")
        if body.priority == _HIGH:
            user.require(Right.PRIORITY, "priority high")
        spec = api_bodies.spec_from_body(body, user)
        if body.dry_run:
            return self.service.estimate(spec)
        return self.request(self.service.ask(spec).id)

    def cancel(self, user: User, number: int, content: bytes) -> types.RequestDocument:
        why = api_bodies.parse_body(content, api.CancelBody).why
        self._require_owner(user, number, "cancelling a request")
        self.service.cancel(number, who=user.name, via=user.via, why=why)
        return self.request(number)

    def resume(self, user: User, number: int, content: bytes) -> types.RequestDocument:
        api_bodies.parse_body(content, api.ResumeBody)
        self._require_owner(user, number, "resuming a request")
        self.service.resume(number, who=user.name, via=user.via)
        return self.request(number)

    def extend(self, user: User, number: int, content: bytes) -> types.RequestDocument:
        body = api_bodies.parse_body(content, api.ExtendBody)
        self._require_owner(user, number, "extending a request")
        self.service.extend(number, who=user.name, via=user.via, boots=body.boots, hours=body.hours)
        return self.request(number)

    def priority(self, user: User, number: int, content: bytes) -> types.RequestDocument:
        body = api_bodies.parse_body(content, api.PriorityBody)
        self._require_owner(user, number, "changing the priority of a request")
        if body.priority == _HIGH:
            user.require(Right.PRIORITY, "priority high")
        self.service.set_priority(number, body.priority, who=user.name, via=user.via)
        return self.request(number)

    def _require_owner(self, user: User, number: int, action: str) -> None:
        user.require(Right.ASK, action)
        user.require_owner(self.service.ledger.requests.get(number).who, action)

    def log_refusal(
        self, user: User | None, origin: str, verb: str, why: str, number: int | None
    ) -> None:
        """Adds a refused call to the audit log."""
        with self.service.ledger.acting(origin):
            self.service.ledger.requests.add_audit_entry(
                "refuse",
                who=user.name if user else "",
                via=user.via if user else "api",
                what_for=verb,
                why=why[:MOST_LETTERS],
                **({} if number is None else {"number": number}),
            )

    # ---------------------------------------------------------------------------------------- read

    def request(self, number: int) -> types.RequestDocument:
        """Raises StoreError for an unknown number."""
        service = self.service
        return follow(service.ledger, service.settings, service.lab, service.history, number)

    def requests(self, query: dict[str, str]) -> api.RequestList:
        """Raises QueryError."""
        _check_query(query, {"who", "state", "limit"})
        state = query.get("state")
        if state is not None and state not in set(RequestState):
            raise QueryError(f"state: expected one of {', '.join(RequestState)}")
        found = self.service.ledger.requests.all(
            who=query.get("who"),
            state=None if state is None else RequestState(state),
            last=_number(query, "limit", _DEFAULT_LIMIT, 1, MOST_LISTED),
        )
        return api.RequestList(requests=tuple(map(self._line, found)))

    def _line(self, request: Request) -> api.RequestLine:
        wish = request.wish
        return api.RequestLine(
            number=request.id,
            kind=request.kind,  # type: ignore[arg-type] # the ledger has no other
            state=request.state.value,
            verdict=request.verdict,
            who=request.who,
            via=request.via,
            subjects=tuple(wish["subjects"]),
            labels=tuple(self.service.ledger.commits.label(name) for name in wish["subjects"]),
            testbeds=tuple(wish["testbeds"]),
            opened_at=request.opened_at,
            closed_at=request.closed_at,
        )

    def log(self, number: int) -> api.RequestLog:
        """Audit log of one request. Raises StoreError for an unknown number."""
        self.service.ledger.requests.get(number)
        found = self.service.ledger.requests.audit(request=number)
        lines = (
            api.LogLine(one.id, one.at, one.who, one.via, one.what, _data(one)) for one in found
        )
        return api.RequestLog(number=number, deeds=tuple(lines))

    def audit(self, query: dict[str, str]) -> api.Audit:
        """Raises QueryError."""
        _check_query(query, {"after", "limit"})
        found = self.service.ledger.requests.audit(
            after=_number(query, "after", 0, 0, 2**31 - 1),
            limit=_number(query, "limit", _DEFAULT_LIMIT, 1, MOST_LISTED),
        )
        return api.Audit(
            deeds=tuple(
                api.AuditLine(
                    number=one.id,
                    at=one.at,
                    who=one.who,
                    via=one.via,
                    origin=one.origin,
                    what=one.what,
                    request=one.request,
                    data=_data(one),
                )
                for one in found
            )
        )

    def revision(self, query: dict[str, str]) -> api.RevisionMatches:
        """Resolves the name of a revision.

        Raises:
            UnresolvedRevisionError: The name is unknown or ambiguous.
            QueryError: The name is missing, or there are other parameters.
            HistoryError: The tree cannot be read.
        """
        _check_query(query, {"name"})
        name, history = query.get("name", ""), self.service.history
        if not name:
            raise QueryError("name: expected the name of a revision, such as ?name=r311849")
        try:
            found = resolve(history, name, default_branch=self.service.settings.branches[0])
        except RevisionError as error:
            data = refusal(name, error)
            raise UnresolvedRevisionError(
                api.Refusal(
                    error=data["error"],
                    faults={"name": data["error"]},
                    candidates=tuple(api.RevisionMatch(**one) for one in data["candidates"]),
                )
            ) from error
        return _named(name, answer(history, name, found))


def _named(name: str, data: dict[str, Any]) -> api.RevisionMatches:
    if "good" in data:
        good, bad = (_commit(data[end]) for end in ("good", "bad"))
        return api.RevisionMatches(
            name=name, kind="range", good=good, bad=bad, commits=data["commits"]
        )
    if "review" in data:
        base = data["base"] and _commit(data["base"])
        return api.RevisionMatches(name=name, kind="review", review=data["review"], commit=base)
    return api.RevisionMatches(name=name, kind="commit", commit=_commit(data))


def _commit(data: dict[str, Any]) -> api.NamedCommit:
    found = api.NamedCommit(**{key: value for key, value in data.items() if key != "name"})
    return replace(found, branches=tuple(found.branches), subversion=tuple(found.subversion))


def _data(entry: AuditEntry) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in entry.data.items()
    }


def _check_query(query: dict[str, str], known: set[str]) -> None:
    unknown = sorted(set(query) - known)
    if unknown:
        raise QueryError(
            f"{unknown[0][:MOST_LETTERS]}: unknown parameter; expected {', '.join(sorted(known))}"
        )
    for name, text in query.items():
        if len(text) > MOST_LETTERS or not text.isprintable():
            raise QueryError(f"{name}: expected at most {MOST_LETTERS} printable characters")


def _number(query: dict[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, str(default))
    # isdigit() accepts digits of other scripts, too.
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise QueryError(f"{name}: expected a number from {least} to {most}")
    return int(text)
