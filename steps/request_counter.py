"""Where `netbisect request` asks: at the desk of this host, or at a server's."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from netbisect.reports import api, documents
from netbisect.steps.api_calls import Calls
from netbisect.steps.request_server import Server
from netbisect.steps.requests import Desk
from netbisect.steps.wish import PatchFile, Wish


class Counter(Protocol):
    """What can be asked for, wherever it is."""

    @property
    def look_seconds(self) -> float:
        """Between two looks at a request while one waits."""

    def cost(self, wish: Wish) -> api.Cost:
        """What a wish would cost."""

    def ask(self, wish: Wish) -> documents.Request:
        """A request as it begins."""

    def show(self, number: int) -> documents.Request:
        """A request as it stands."""

    def list(self, *, who: str | None, everything: bool) -> Sequence[api.RequestLine]:
        """Requests, the newest first."""

    def change(self, verb: str, number: int, who: str, **data: Any) -> None:
        """Cancels, resumes or extends a request, or gives it another priority."""

    def audit(self, after: int, limit: int) -> api.Audit:
        """What people have done and were refused, oldest first."""


@dataclass(frozen=True, slots=True)
class Here:
    """At the desk of this host, where whoever may write the database may do everything."""

    desk: Desk

    @property
    def look_seconds(self) -> float:
        """Between two looks at a request while one waits."""
        return 1.0

    def cost(self, wish: Wish) -> api.Cost:
        """What a wish would cost.

        Raises:
            WishError: it cannot be granted.
        """
        self.desk.history.update()
        found = self.desk.estimate(wish)
        costs = tuple(api.TestbedCost(**asdict(one)) for one in found.testbeds)
        return api.Cost(testbeds=costs, build_seconds=found.build_seconds)

    def ask(self, wish: Wish) -> documents.Request:
        """A request as it begins.

        Raises:
            WishError: it cannot be granted.
        """
        self.desk.history.update()
        return self.show(self.desk.ask(wish).id)

    def show(self, number: int) -> documents.Request:
        """A request as it stands.

        Raises:
            StoreError: there is none.
        """
        return Calls(self.desk).request(number)

    def list(self, *, who: str | None, everything: bool) -> Sequence[api.RequestLine]:
        """Requests, the newest first."""
        query = {"who": who} if who is not None else {}
        return Calls(self.desk).requests(query | _state(everything=everything)).requests

    def change(self, verb: str, number: int, who: str, **data: Any) -> None:
        """Cancels, resumes or extends a request, or gives it another priority.

        Raises:
            WishError: it cannot be granted.
            StoreError: there is no such request, or it is in no state for it.
        """
        if verb == "priority":
            self.desk.prioritise(number, data["priority"], who=who)
        else:
            getattr(self.desk, verb)(number, who=who, **data)

    def audit(self, after: int, limit: int) -> api.Audit:
        """What people have done and were refused, oldest first."""
        return Calls(self.desk).audit({"after": str(after), "limit": str(limit)})


@dataclass(frozen=True, slots=True)
class There:
    """At a server's; who one is there, its token says."""

    server: Server

    @property
    def look_seconds(self) -> float:
        """Between two looks at a request while one waits."""
        return 10.0

    def cost(self, wish: Wish) -> api.Cost:
        """What a wish would cost.

        Raises:
            ServerError: the server refuses it, or cannot be reached.
        """
        return self.server.post("requests", api.Cost, _body(wish) | {"dry_run": True})

    def ask(self, wish: Wish) -> documents.Request:
        """A request as it begins.

        Raises:
            ServerError: the server refuses it, or cannot be reached.
        """
        return self.server.post("requests", documents.Request, _body(wish))

    def show(self, number: int) -> documents.Request:
        """A request as it stands.

        Raises:
            ServerError: the server refuses it, or cannot be reached.
        """
        return self.server.get(f"requests/{number}", documents.Request)

    def list(self, *, who: str | None, everything: bool) -> Sequence[api.RequestLine]:
        """Requests, the newest first; of whoever it is, where `who` is given.

        Raises:
            ServerError: the server refuses it, or cannot be reached.
        """
        query = {}
        if who is not None:
            query["who"] = self.server.get("caller", api.Caller).who
        query |= _state(everything=everything)
        return self.server.get("requests", api.RequestList, query).requests

    def change(self, verb: str, number: int, who: str, **data: Any) -> None:
        """Cancels, resumes or extends a request, or gives it another priority.

        Raises:
            ServerError: the server refuses it, or cannot be reached.
        """
        del who  # the token says it
        self.server.post(f"requests/{number}/{verb}", documents.Request, data)

    def audit(self, after: int, limit: int) -> api.Audit:
        """What people have done and were refused, oldest first; for the right `admin`.

        Raises:
            ServerError: the server refuses it, or cannot be reached.
        """
        query = {"after": str(after), "limit": str(limit)}
        return self.server.get("audit", api.Audit, query)


def _state(*, everything: bool) -> dict[str, str]:
    return {} if everything else {"state": "open"}


def _body(wish: Wish) -> dict[str, Any]:
    """A wish as it is sent; what was not said is not sent."""
    plain = asdict(wish)
    for name in ("who", "via", "may_patch", "patches"):
        del plain[name]
    patches = [_patch(one) for one in wish.patches]
    return {key: value for key, value in plain.items() if value is not None} | {"patches": patches}


def _patch(one: PatchFile) -> dict[str, str]:
    return {"base64": base64.b64encode(one.data).decode(), "base": one.base}
