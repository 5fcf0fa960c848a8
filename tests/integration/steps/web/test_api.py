"""The API over HTTP: authentication, authorization, limits."""

from __future__ import annotations

import base64
import json
import socket
from functools import partial

import pytest
import treq
from api_master import API, DIFF, ORIGIN, ApiMaster
from real_master import case
from twisted.internet import defer, threads

from netbisect.steps.requests.rate_limit import RateLimiter
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.web import api as web_api


class ApiTest(ApiMaster):
    @pytest.mark.long
    @case
    async def test_calls_are_executed_or_rejected_and_logged(self) -> None:
        self.change(calls_per_minute=10_000)
        await self.serve()
        token = self.token("ask")
        await self.check_request(token)
        await self.check_rights(token)
        await self.check_malformed(self.token("ask", "patch"))
        await self.check_large_bodies()
        await self.check_origin(token)
        await self.check_patches()
        await self.check_revisions()

    async def check_request(self, token: str) -> None:
        """Asserts that a request is submitted, read and cancelled."""
        cost = await self.record(200, token, dry_run=True)
        assert (cost["testbeds"][0]["boots"], self.ledger.requests.all()) == (10, [])

        created = await self.record(201, token, boots=2, address="ann@lab.invalid")
        assert (created["number"], created["who"], created["via"], created["state"]) == (
            1,
            "ann",
            "api",
            "open",
        )
        assert created["parts"][0]["place"] == 1
        assert (await self.get(200, "requests/1"))["boots"] == 2
        listed = (await self.get(200, "requests?who=ann"))["requests"]
        assert [request["number"] for request in listed] == [1]
        assert (await self.get(200, "requests?who=bob&state=open"))["requests"] == []

        answer = await self.call("POST", f"{API}/requests/1/cancel", token, {"why": "wrong"})
        assert ((await self.read_json(answer))["state"], answer.code) == ("cancelled", 200)
        again = await self.call("POST", f"{API}/requests/1/cancel", token, {})
        assert again.code == 409
        log = (await self.get(200, "requests/1/log"))["entries"]
        assert [entry["what"] for entry in log] == ["ask", "cancel"]
        assert log[1]["data"] == {"why": "wrong"}
        assert "ann@lab.invalid" not in json.dumps([log, created])

    async def check_revisions(self) -> None:
        found = {}
        async with database_thread(self.settings)._lock:  # the scheduler does not wait for readers
            for path in ("revisions?name=main~1", "requests/1"):
                call = defer.ensureDeferred(self.get(200, path))
                found[path] = await call.addTimeout(60, self.master.reactor)
        assert found["revisions?name=main~1"]["commit"]["subject"] == "Change 2"
        assert (await self.get(200, "revisions?name=main~2..main"))["commits"] == 2
        answered = await self.get(422, "revisions?name=nosuch")
        assert "nosuch" in answered["faults"]["name"]
        await self.get(400, "revisions")
        self.settings.lab.write_text("[source")
        assert "lab file is invalid" in (await self.get(503, "requests"))["error"]

    async def check_rights(self, good: str) -> None:
        """Asserts that calls without the right are rejected and logged."""
        other = self.token("ask", who="bob")
        place = f"requests/{(await self.record(201, good, boots=2))['number']}"
        refused = self.refused()
        revoked = self.token("ask", who="eve")
        self.ledger.tokens.revoke(3, by="root")
        for token in (
            "",
            "x",
            good[:-1] + ("a" if good[-1] != "a" else "b"),
            good.replace("-1-", "-2-"),
            good.replace("-1-", "-99-"),
            revoked,
            self.token("ask", days=-1),
        ):
            await self.record(401, token)
        assert "`ask`" in (await self.record(403, self.token("read")))["error"]
        assert "`priority`" in (await self.record(403, good, priority="high"))["error"]
        for verb in ("cancel", "resume", "extend", "priority"):
            body = {"priority": "low"} if verb == "priority" else {}
            answer = await self.call("POST", f"{API}/{place}/{verb}", other, body)
            assert answer.code == 403, verb
        assert (
            await self.call("POST", f"{API}/{place}/priority", good, {"priority": "high"})
        ).code == 403
        admin = self.token("admin", who="root")
        done = await self.call("POST", f"{API}/{place}/priority", admin, {"priority": "high"})
        assert (await self.read_json(done))["priority"] == "high"

        await self.get(401, "audit")
        await self.get(403, "audit", good)
        entries = (await self.get(200, "audit?limit=1000", admin))["entries"]
        assert self.refused() - refused == 7, "calls without a valid token are not recorded"
        assert {entry["origin"] for entry in entries if entry["via"] == "api"} == {"127.0.0.1"}

    def refused(self) -> int:
        return sum(entry.what == "refuse" for entry in self.ledger.requests.audit())

    @case
    async def test_reading_and_the_change_hook_can_require_a_password(self) -> None:
        """Both are configured by a reload; calls of the hook add no change to Buildbot."""
        await self.serve()
        hook = self.folder / "hook"
        hook.write_text("git:secret\n")
        hook.chmod(0o600)
        self.change(reading="login", hook_file=hook)
        self.master.config_loader.config_dict |= self.pages()
        await self.master.doReconfig()
        for path in ("requests", "requests/1", "revisions?name=main", "caller"):
            await self.get(401, path)
        assert (await self.call("GET", "api/v2/builders")).code == 403
        for page in (
            *("index.html", "search", "overview.json", "feed.atom"),
            *("badges/main.svg", "data/alert-1.json", "reports/request-1/x.svg"),
        ):
            assert (await self.call("GET", f"plugins/netbisect/{page}")).code == 403, page
        token = self.token("read")
        assert (await self.get(200, "caller", token))["rights"] == ["read"]
        assert (await self.get(200, "requests", token))["requests"] == []

        for status, place, password in (
            (401, "poller", ""),
            (401, "poller", "wrong"),
            (200, "poller", "secret"),
            (400, "base", "secret"),
            (400, "github", "secret"),
        ):
            basic = base64.b64encode(f"git:{password}".encode()).decode()
            answer = await self.call(
                "POST", f"change_hook/{place}", "", {}, authorization=f"Basic {basic}"
            )
            await treq.content(answer)
            assert answer.code == status, (place, password)
        assert await self.master.data.get(("changes",)) == []

    @case
    async def test_calls_are_limited_per_user_and_bad_tokens_per_address(self) -> None:
        """The clock of the limits stands still, so that slow calls do not regain tokens."""
        self.patch(web_api, "RateLimiter", partial(RateLimiter, clock=lambda: 0.0))
        self.change(calls_per_minute=3, trusted_proxies=("127.0.0.1",))
        await self.serve()
        ann, bob = self.token("read"), self.token("read", who="bob")
        for _ in range(3):
            await self.get(200, "caller", ann)
        answer = await self.call("GET", f"{API}/caller", ann)
        assert answer.code == 429
        assert 1 <= int(answer.headers.getRawHeaders("retry-after")[0]) <= 20
        await self.get(200, "caller", bob)

        for _ in range(20):
            await self.get(401, "caller", "netbisect-1-x")
        await self.get(429, "caller", "netbisect-1-x")
        await self.get(200, "caller", bob)
        await self.check_proxy()

    async def check_proxy(self) -> None:
        for status, forwarded in (
            *3 * [(200, "192.0.2.1")],
            (429, "192.0.2.1"),
            (429, "192.0.2.9, 192.0.2.1"),
            (429, "192.0.2.9, 192.0.2.1, 127.0.0.1"),
            *3 * [(200, "192.0.2.1, 2001:db8::1")],
            (429, "2001:db8::2"),
            (200, "none"),
        ):
            answer = await self.call("GET", f"{API}/caller", x_forwarded_for=forwarded)
            assert answer.code == status, forwarded

    async def check_malformed(self, token: str) -> None:
        before = self.ledger.requests.all()
        path = f"{API}/requests"
        for status, content in (
            (400, b""),
            (400, b"{"),
            (400, b"[]"),
            (400, b"[" * 100_000),
            (400, b'{"kind": ' * 50_000),
            (400, b'{"kind": "\xff"}'),
            (400, b'{"kind": "\\ud800"}'),
            (400, b'{"kind": "compare", "hours": NaN}'),
            (400, b'{"kind": "compare", "hours": 1e999}'),
            (400, b'{"kind": "compare", "boots": ' + b"9" * 5000 + b"}"),
            (413, b'{"kind": "' + b"x" * (10 << 20) + b'"}'),
            (422, b"{}"),
            (422, b'{"kind": "' + b"x" * 100_000 + b'"}'),
            (422, b'{"kind": "compare", "subjects": ' + json.dumps(["a"] * 1000).encode() + b"}"),
            (422, b'{"kind": "compare", "who": "root"}'),
            (422, b'{"kind": "compare", "subjects": ["main", "a\\u0000b"]}'),
        ):
            answer = await self.call("POST", path, token, content)
            answered = await self.read_json(answer)
            assert answer.code == status, (content[:60], answered)
            assert len(answered["error"]) < 3000
        large = "x" * (1 << 20) + DIFF
        await self.record(413, token, subjects=["main"], patches=[{"diff": large}])
        plain = await self.call("POST", path, token, b"{}", content_type="text/plain")
        assert plain.code == 415
        assert (await self.call("PUT", path, token, b"{}")).code == 405
        for wrong in ("requests/0", "requests/99", "requests/x", "requests/1/x", "x", "v2", ""):
            await self.get(404, wrong, token)
        assert "no request 02" in (await self.get(404, "requests/02", token))["error"]
        for wrong in (
            "requests?limit=0",
            "requests?state=x",
            "requests?x=1",
            "requests?who=%ff",
            "requests?limit=1&limit=2",
            "requests?limit=%C2%B2",
        ):
            await self.get(400, wrong, token)
        assert self.ledger.requests.all() == before

    async def check_large_bodies(self) -> None:
        head = f"POST /{API}/requests HTTP/1.1\r\nHost: x\r\n"
        chunk = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        for header, content in (
            ("Content-Length: 4194305", b""),
            ("Content-Length: 99999999999", chunk * 20),
            ("Transfer-Encoding: chunked", chunk * 4 + b"1\r\nx"),
            ("Transfer-Encoding: chunked", chunk * 20),
        ):
            reply = await threads.deferToThread(
                self.send, f"{head}{header}\r\n\r\n".encode() + content
            )
            assert reply.startswith(b"HTTP/1.1 413 "), header
            assert reply.count(b"HTTP/1.1") == 1
            assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"] == (
                "expected at most 4,194,304 bytes"
            )
        valid = f"{head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        reply = await threads.deferToThread(self.send, valid + chunk * 4 + b"0\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 401 ")

    def send(self, content: bytes) -> bytes:
        """Sends without closing the connection; returns the response."""
        port = self.master.www.getPortnum()
        with socket.create_connection(("127.0.0.1", port), timeout=30.0) as connection:
            connection.sendall(content)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))

    async def check_origin(self, token: str) -> None:
        body = {"kind": "compare", "subjects": ["main~1", "main"], "dry_run": True}
        path = f"{API}/requests"
        other = await self.call("POST", path, token, body, origin="https://elsewhere.invalid")
        assert other.code == 403
        assert (await self.call("POST", path, token, body, origin=ORIGIN)).code == 200

    async def check_patches(self) -> None:
        plain, trusted = self.token("ask"), self.token("ask", "patch", who="bob")
        patch = {"subjects": ["main"], "patches": [{"diff": DIFF}]}
        for body in (patch, {"subjects": ["main", "D5180"]}, {"subjects": ["main+D5180"]}):
            answered = await self.record(403, plain, **body)
            assert "the right `patch`" in answered["error"]
        assert {record.who for record in self.ledger.requests.all()} == {"ann"}
        created = await self.record(201, trusted, **patch)
        assert created["subjects"][1].startswith(created["subjects"][0] + "+patch-")
        other = await self.record(
            201,
            trusted,
            subjects=["main"],
            patches=[
                {
                    "base64": base64.b64encode(
                        b"--- a/\xff\n+++ b/\xff\n@@ -1 +1 @@\n-a\n+b\n"
                    ).decode(),
                    "base": "main~1",
                }
            ],
        )
        assert other["subjects"][1].startswith(
            (await self.get(200, "revisions?name=main~1"))["commit"]["revision"]
        )
