"""What the API does for somebody; all of it in the ledger's thread, and without the web."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from netbisect.reports import api, documents
from netbisect.reports.openapi import MOST_LETTERS, MOST_LISTED
from netbisect.steps import api_bodies as bodies
from netbisect.steps.request_follow import follow
from netbisect.steps.requests import Desk
from netbisect.steps.revision_answer import answer, refusal
from netbisect.steps.rights import Person, Right
from netbisect.store.records import Deed, Request, RequestState
from netbisect.store.revision_names import RevisionError
from netbisect.store.revisions import resolve

_LIST = 100
"""Requests and deeds that are told where nobody says how many."""
_HIGH = "high"
"""The priority for which a right is needed."""


class NoRevisionError(Exception):
    """A name of a revision that means nothing, or several."""

    def __init__(self, told: api.Refusal) -> None:
        super().__init__(told.error)
        self.told = told


class QueryError(Exception):
    """What stands behind the question mark of an address cannot be used."""


@dataclass(frozen=True, slots=True)
class Calls:
    """What can be done at a desk."""

    desk: Desk

    # ---------------------------------------------------------------------------------- asking

    def ask(self, person: Person, content: bytes) -> api.Cost | documents.Request:
        """A request as it begins, or what it would cost.

        Raises:
            BodyError: what was sent cannot be read.
            WishError: it cannot be granted.
            RightError: it needs another right.
        """
        person.need(Right.ASK, "asking")  # before it is read
        return self.grant(person, bodies.read(content, api.AskBody))

    def grant(self, person: Person, body: api.AskBody) -> api.Cost | documents.Request:
        """A request as it begins, or what it would cost; errors as of `ask`."""
        person.need(Right.ASK, "asking")
        if body.priority == _HIGH:
            person.need(Right.PRIORITY, "priority high")
        wish = bodies.wish_of(body, person)
        if body.dry_run:
            found = self.desk.estimate(wish)
            costs = tuple(api.TestbedCost(**asdict(one)) for one in found.testbeds)
            return api.Cost(testbeds=costs, build_seconds=found.build_seconds)
        return self.request(self.desk.ask(wish).id)

    def cancel(self, person: Person, number: int, content: bytes) -> documents.Request:
        """A request that is stopped; errors as of `change`."""
        why = bodies.read(content, api.CancelBody).why
        self._own(person, number, "cancelling a request")
        self.desk.cancel(number, who=person.who, via=person.via, why=why)
        return self.request(number)

    def resume(self, person: Person, number: int, content: bytes) -> documents.Request:
        """A request that goes on; errors as of `change`."""
        bodies.read(content, api.ResumeBody)
        self._own(person, number, "resuming a request")
        self.desk.resume(number, who=person.who, via=person.via)
        return self.request(number)

    def extend(self, person: Person, number: int, content: bytes) -> documents.Request:
        """A request for more; errors as of `change`."""
        body = bodies.read(content, api.ExtendBody)
        self._own(person, number, "extending a request")
        self.desk.extend(number, who=person.who, via=person.via, boots=body.boots, hours=body.hours)
        return self.request(number)

    def priority(self, person: Person, number: int, content: bytes) -> documents.Request:
        """A request with another priority; errors as of `change`."""
        body = bodies.read(content, api.PriorityBody)
        self._own(person, number, "changing the priority of a request")
        if body.priority == _HIGH:
            person.need(Right.PRIORITY, "priority high")
        self.desk.prioritise(number, body.priority, who=person.who, via=person.via)
        return self.request(number)

    def change(self, verb: str, person: Person, number: int, content: bytes) -> documents.Request:
        """A request after it was cancelled, resumed, extended or given another priority.

        Raises:
            BodyError: what was sent cannot be read.
            WishError: it cannot be granted.
            RightError: it needs another right.
            StoreError: there is no such request, or it is in no state for it.
        """
        found: documents.Request = getattr(self, verb)(person, number, content)
        return found

    def _own(self, person: Person, number: int, what: str) -> None:
        person.need(Right.ASK, what)
        person.need_own(self.desk.ledger.request(number).who, what)

    def refused(
        self, person: Person | None, origin: str, what: str, why: str, number: int | None
    ) -> None:
        """Writes into the audit log that somebody was refused something."""
        with self.desk.ledger.acting(origin):
            self.desk.ledger.note_deed(
                "refuse",
                who=person.who if person else "",
                via=person.via if person else "api",
                what_for=what,
                why=why[:MOST_LETTERS],
                **({} if number is None else {"number": number}),
            )

    # --------------------------------------------------------------------------------- looking

    def request(self, number: int) -> documents.Request:
        """All that is known of a request.

        Raises:
            StoreError: there is none.
        """
        desk = self.desk
        return follow(desk.ledger, desk.settings, desk.lab, desk.history, number)

    def requests(self, query: dict[str, str]) -> api.RequestList:
        """What was asked for.

        Raises:
            QueryError: the query cannot be used.
        """
        _only(query, {"who", "state", "limit"})
        state = query.get("state")
        if state is not None and state not in set(RequestState):
            raise QueryError(f"state: one of {', '.join(RequestState)} expected")
        found = self.desk.ledger.requests(
            who=query.get("who"),
            state=None if state is None else RequestState(state),
            last=_number(query, "limit", _LIST, 1, MOST_LISTED),
        )
        return api.RequestList(requests=tuple(map(self._line, found)))

    def _line(self, one: Request) -> api.RequestLine:
        wish = one.wish
        return api.RequestLine(
            number=one.id,
            kind=one.kind,  # type: ignore[arg-type] # the ledger has no other
            state=one.state.value,
            verdict=one.verdict,
            who=one.who,
            via=one.via,
            subjects=tuple(wish["subjects"]),
            labels=tuple(self.desk.ledger.label(name) for name in wish["subjects"]),
            testbeds=tuple(wish["testbeds"]),
            opened_at=one.opened_at,
            closed_at=one.closed_at,
        )

    def log(self, number: int) -> api.RequestLog:
        """What was done to a request.

        Raises:
            StoreError: there is none.
        """
        self.desk.ledger.request(number)
        found = self.desk.ledger.audit(request=number)
        lines = (
            api.LogLine(one.id, one.at, one.who, one.via, one.what, _told(one)) for one in found
        )
        return api.RequestLog(number=number, deeds=tuple(lines))

    def audit(self, query: dict[str, str]) -> api.Audit:
        """What people have done, and were refused.

        Raises:
            QueryError: the query cannot be used.
        """
        _only(query, {"after", "limit"})
        found = self.desk.ledger.audit(
            after=_number(query, "after", 0, 0, 2**31 - 1),
            limit=_number(query, "limit", _LIST, 1, MOST_LISTED),
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
                    data=_told(one),
                )
                for one in found
            )
        )

    def revision(self, query: dict[str, str]) -> api.Named:
        """What a name of a revision means.

        Raises:
            NoRevisionError: it means nothing, or several commits.
            QueryError: there is no name, or more than that.
            HistoryError: the tree cannot be read.
        """
        _only(query, {"name"})
        name, history = query.get("name", ""), self.desk.history
        if not name:
            raise QueryError("name: the name of a revision expected, such as ?name=r311849")
        try:
            found = resolve(history, name, default_branch=self.desk.settings.branches[0])
        except RevisionError as error:
            told = refusal(name, error)
            candidates = tuple(api.Candidate(**one) for one in told["candidates"])
            raise NoRevisionError(
                api.Refusal(
                    error=told["error"], faults={"name": told["error"]}, candidates=candidates
                )
            ) from error
        return _named(name, answer(history, name, found))


def _named(name: str, told: dict[str, Any]) -> api.Named:
    if "good" in told:
        good, bad = (_commit(told[end]) for end in ("good", "bad"))
        return api.Named(name=name, kind="range", good=good, bad=bad, commits=told["commits"])
    if "review" in told:
        base = told["base"] and _commit(told["base"])
        return api.Named(name=name, kind="review", review=told["review"], commit=base)
    return api.Named(name=name, kind="commit", commit=_commit(told))


def _commit(told: dict[str, Any]) -> api.NamedCommit:
    plain = {key: value for key, value in told.items() if key != "name"}
    found = api.NamedCommit(**plain)
    return replace(found, branches=tuple(found.branches), subversion=tuple(found.subversion))


def _told(deed: Deed) -> dict[str, str]:
    """What was said with a deed, each as a text."""
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in deed.data.items()
    }


def _only(query: dict[str, str], known: set[str]) -> None:
    strange = sorted(set(query) - known)
    if strange:
        raise QueryError(
            f"{strange[0][:MOST_LETTERS]}: no such parameter; {', '.join(sorted(known))} expected"
        )
    for name, text in query.items():
        if len(text) > MOST_LETTERS or not text.isprintable():
            raise QueryError(f"{name}: at most {MOST_LETTERS} plain letters expected")


def _number(query: dict[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, str(default))
    # Digits of other scripts are digits too, but no numbers here.
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise QueryError(f"{name}: a number from {least} to {most} expected")
    return int(text)
