"""Access without a login."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import buildbot.data
import treq
from api_master import API, ORIGIN, ApiMaster
from real_master import case

_SAMPLE = {"n": "1", "i": "x", "s": "x", "": "1"}
_ACTION = re.compile(r"action[A-Z]")
_VERBS = ("POST", "PUT", "DELETE", "PATCH")
"""Methods that may write."""


def path_of(pattern: tuple[str, ...]) -> str:
    """A path that matches the pattern of an endpoint."""
    parts = [part.partition(":") for part in pattern]
    return "/".join(_SAMPLE[kind] if colon else kind for kind, colon, _ in parts)


def actions(endpoints: Iterable[Any]) -> set[str]:
    """Names of actions in methods and sources of endpoints."""
    methods = {name for endpoint in endpoints for name in dir(endpoint)}
    found = {name.removeprefix("action").lower() for name in methods if _ACTION.match(name)}
    for path in Path(inspect.getfile(buildbot.data)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and ast.unparse(node.left) == "action":
                parts = ast.walk(node.comparators[0])
                found |= {part.value for part in parts if isinstance(part, ast.Constant)}
    return found


class AnonymousTest(ApiMaster):
    async def rpc(self, path: str, method: str, **headers: str) -> int:
        body = {"id": 1, "jsonrpc": "2.0", "method": method, "params": {"enabled": False}}
        answer = await self.call("POST", f"api/v2/{path}", "", body, **headers)
        await treq.content(answer)
        return int(answer.code)

    @case
    async def test_no_endpoint_changes_anything_without_a_login(self) -> None:
        """All endpoints of Buildbot with all actions, and netbisect's pages."""
        self.change(url=f"{ORIGIN}/")
        await self.serve()
        endpoints = [endpoint for _, endpoint in self.master.data.matcher.iterPatterns()]
        known = actions(endpoints)
        assert "get" not in {action.lower() for action in known}
        assert known >= {"stop", "rebuild", "cancel", "force", "enable", "pause", "set_priority"}
        paths = {path_of(pattern) for pattern, _ in self.master.data.matcher.iterPatterns()}
        assert len(paths) > 80

        for path in paths:
            assert await self.rpc(path, "anything") == 403, path
        for path in ("builds/1", "buildrequests/1", "forceschedulers/x", "workers/1"):
            for action in known:
                assert await self.rpc(path, action) == 403, (path, action)
        for verb in _VERBS[1:]:
            answer = await self.call(verb, "api/v2/builders", "", {})
            assert answer.code in (400, 404, 405, 501), verb

        await self.check_netbisect()
        await self.check_cross_origin()
        await self.check_headers()

    async def check_netbisect(self) -> None:
        """Asserts that pages accept no writes, and that the API needs a token."""
        for page in (
            "index.html",
            "overview.json",
            "data/alert-1.json",
            "feed.atom",
            "badges/x.svg",
            "search",
        ):
            for verb in _VERBS:
                answer = await self.call(verb, f"plugins/netbisect/{page}", "", {})
                assert answer.code in (405, 501), (page, verb)
        for path in (
            "requests",
            *(f"requests/1/{verb}" for verb in ("cancel", "resume", "extend")),
        ):
            assert (await self.call("POST", f"{API}/{path}", "", {})).code == 401, path
        for page in ("alert-1.html", "request-1.html", "new-request.html"):
            form = await self.call("POST", f"plugins/netbisect/{page}", "", {}, origin=ORIGIN)
            assert form.code == 403, page
        for hook in ("base", "poller"):
            assert (await self.call("POST", f"change_hook/{hook}", "", {})).code == 401
        assert self.ledger.requests.all() == []
        assert self.ledger.requests.audit() == [], "strangers could fill the disk"

    async def check_cross_origin(self) -> None:
        """Asserts that calls from pages of other servers are rejected."""
        other = {"origin": "https://elsewhere.invalid"}
        assert await self.rpc("builders", "anything", **other) == 400
        body = b'{"id": 1, "jsonrpc": "2.0", "method": "stop", "params": {}}'
        plain = await self.call("POST", "api/v2/builds/1", "", body, content_type="text/plain")
        assert plain.code == 400
        preflight = await self.call(
            "OPTIONS", "api/v2/builds/1", **other, access_control_request_method="POST"
        )
        assert not preflight.headers.hasHeader("access-control-allow-origin")

    async def check_headers(self) -> None:
        """Asserts that pages allow only scripts of the service."""
        (self.settings.reports / "request-1").mkdir(parents=True)
        (self.settings.reports / "request-1" / "x.svg").write_text("<svg/>")
        for status, page in (
            (200, "index.html"),
            (200, "overview.json"),
            (200, "feed.atom"),
            (200, "badges/main.svg"),
            (200, "reports/request-1/x.svg"),
            (200, "api/v1/caller"),
            (404, "reports/x"),
            (404, "alert-2"),
            (401, "api/v1/audit"),
        ):
            answer = await self.call("GET", f"plugins/netbisect/{page}")
            policy = answer.headers.getRawHeaders("content-security-policy", [""])[0]
            assert answer.code == status, (page, answer.code)
            assert policy.startswith("default-src 'none'; "), page
            assert policy.count("script") == 1
            assert "script-src 'self'; connect-src 'self'; " in policy
            assert "frame-ancestors 'self'" in policy
            assert answer.headers.getRawHeaders("x-content-type-options") == ["nosniff"], page
