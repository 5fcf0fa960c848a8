"""Logins of a real master with htpasswd."""

from __future__ import annotations

import base64

import bcrypt
import pytest
import treq
from api_master import API, ORIGIN, ApiMaster
from real_master import case

from netbisect.steps.service.web_settings import LoginSettings, PeopleRule

_NEW = "plugins/netbisect/new-request.html"
_REQUEST = {"kind": "compare", "subjects": "main~1 main"}


@pytest.mark.slow
class LoginTest(ApiMaster):
    """A master with logins by an htpasswd file."""

    async def login(self, name: str, password: str) -> str:
        """Logs in; returns the cookie of the session, or "" after a failure."""
        basic = base64.b64encode(f"{name}:{password}".encode()).decode()
        answer = await self.call("GET", "auth/login", authorization=f"Basic {basic}", follow=False)
        await treq.content(answer)
        cookies = answer.headers.getRawHeaders("set-cookie") or [""]
        return cookies[-1].partition(";")[0] if answer.code == 302 else ""

    @case
    async def test_forms_and_calls_need_a_session_and_its_rights(self) -> None:
        users = self.folder / "users"
        digest = bcrypt.hashpw(b"secret", bcrypt.gensalt(4))
        users.write_bytes(b"ann:" + digest + b"\nbob:" + digest)
        users.chmod(0o600)
        people = (PeopleRule(("ann",), ("read",)), PeopleRule(("bob",), ("ask",)))
        self.change(url=f"{ORIGIN}/", login=LoginSettings("htpasswd", users), people=people)
        await self.serve()
        cookie = await self.login("ann", "secret")
        assert await self.login("ann", "wrong") == ""
        assert await self.login("eve", "secret") == ""

        assert (await self.submit(_NEW, cookie=cookie, **_REQUEST))[0] == 403
        assert (await self.submit(_NEW, **_REQUEST))[0] == 403
        body = {"kind": "compare", "subjects": ["main~1", "main"], "dry_run": True}
        for origin in ({}, {"origin": "https://x.invalid"}):
            answer = await self.call("POST", f"{API}/requests", "", body, cookie=cookie, **origin)
            assert answer.code == 403
        caller = await self.read_json(await self.call("GET", f"{API}/caller", "", cookie=cookie))
        assert caller["who"] == "ann"

        assert self.ledger.requests.all() == []
        cookie = await self.login("bob", "secret")
        assert (await self.submit(_NEW, cookie=cookie, **_REQUEST))[0] == 303
        assert [request.who for request in self.ledger.requests.all()] == ["bob"]
