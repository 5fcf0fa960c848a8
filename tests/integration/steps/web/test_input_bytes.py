"""Invalid text and wrong passwords in HTTP requests."""

from __future__ import annotations

import base64
import itertools
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import bcrypt
import pytest
from api_master import API, NEW_REQUEST, ORIGIN, REQUEST, ApiMaster
from real_master import case
from twisted.internet import threads

from netbisect.steps.requests.rate_limit import LoginBackoff
from netbisect.steps.service.web_settings import PeopleRule
from netbisect.steps.web import login as web_login

INVALID = (b"\xff", b"\xed\xa0\x80", b"\x00", b"%ff", "é".encode())
PAGES = (
    b"plugins/netbisect/index.html",
    b"plugins/netbisect/alert-1.html",
    b"plugins/netbisect/badges/x.svg",
    f"{API}/caller".encode(),
    f"{API}/requests".encode(),
    b"api/v2/builders",
    b"auth/login",
    b"auth/logout",
    b"change_hook/poller",
    b"sse/listen/builds",
    b"",
)
HEADER_PAGES = (f"{API}/requests".encode(), b"auth/login", b"change_hook/poller")
HEADERS = (b"cookie", b"content-type", b"origin", b"accept", b"if-none-match", b"host")


def headers(invalid: bytes) -> Iterator[bytes]:
    yield from (name + b": " + invalid for name in HEADERS)
    for form in (b"%s", b"%s.%s.%s", b"a.%s.c", b"e30.e30.%s"):
        session = form.replace(b"%s", invalid)
        yield b"cookie: TWISTED_SESSION=" + session
    for credentials in (
        b"Bearer " + invalid,
        b"Basic " + invalid,
        b"Basic " + base64.b64encode(invalid),
        b"Basic " + base64.b64encode(invalid + b":" + invalid),
        b'Digest username="' + invalid + b'"',
        invalid,
        b"Basic",
    ):
        yield b"authorization: " + credentials


def addresses(page: bytes, invalid: bytes) -> Iterator[bytes]:
    for form in (b"%s/%s", b"%s?%s", b"%s?name=%s", b"%s%s"):
        yield form.replace(b"%s", page, 1).replace(b"%s", invalid, 1)


class InvalidTextTest(ApiMaster):
    async def serve(self, **others: object) -> None:
        hook, users = self.folder / "hook", self.folder / "users"
        hook.write_text("git:secret\n")
        digest = bcrypt.hashpw(b"secret", bcrypt.gensalt(4))
        users.write_bytes(b"ann:" + digest + b"\nbob:" + digest)
        for path in (hook, users):
            path.chmod(0o600)
        login = replace(self.settings.web.login, kind="htpasswd", users_file=users)
        people = (PeopleRule(("ann",), ("read",)), PeopleRule(("bob",), ("ask",)))
        self.change(url=f"{ORIGIN}/", hook_file=hook, login=login, people=people)
        await super().serve(**others)

    def send(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """Returns the beginning of the response."""
        port = self.master.www.getPortnum()
        with socket.create_connection(
            ("127.0.0.1", port), timeout=30, source_address=(source, 0)
        ) as connection:
            connection.sendall(request)
            reply = b""
            while b"\r\n\r\n" not in reply and (block := connection.recv(1 << 16)):
                reply += block
            return reply

    @pytest.mark.long
    @case
    async def test_invalid_text_in_headers_and_urls_causes_no_error(self) -> None:
        await self.serve()
        await threads.deferToThread(self.send_all)

    def send_all(self) -> None:
        rest = b"\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"
        requests = [
            verb + b" /" + page + b" HTTP/1.1\r\n" + header + rest
            for page, verb, invalid in itertools.product(HEADER_PAGES, (b"GET", b"POST"), INVALID)
            for header in headers(invalid)
        ] + [
            b"GET /" + address + b" HTTP/1.1\r\nhost: x" + rest
            for page, invalid in itertools.product(PAGES, INVALID)
            for address in addresses(page, invalid)
        ]
        for request in requests:
            reply = self.send(request)
            assert reply.startswith(b"HTTP/1.1 "), request
            assert reply[9:12] != b"500", (request, self.flushLoggedErrors())
            assert self.flushLoggedErrors() == [], request

    @pytest.mark.long
    @case
    async def test_invalid_text_and_wrong_passwords_are_rejected(self) -> None:
        """Failed logins delay only their own address. Forms and calls need a session and rights.

        The clock of the delays stands still, because the first delay takes one second only.
        """
        self.patch(web_login, "LoginBackoff", partial(LoginBackoff, clock=lambda: 0.0))
        await self.serve()
        head = f"GET /{API}/caller HTTP/1.1\r\nconnection: close\r\nauthorization: ".encode()
        for credentials in (b"Bearer \xff", b"Basic \xff", b"\xff", b"Bearer"):
            reply = await threads.deferToThread(self.send, head + credentials + b"\r\n\r\n")
            assert reply.startswith(b"HTTP/1.1 401 "), credentials
        path = f"GET /{API}/revisions?name=%ff HTTP/1.1\r\nconnection: close\r\n\r\n".encode()
        reply = await threads.deferToThread(self.send, path)
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert "UTF-8" in json.loads(reply.partition(b"\r\n\r\n")[2])["error"]

        assert await self.log_in("ann", "wrong") == await self.log_in("eve", "secret") == ""
        for password in (*10 * ["wrong"], "secret"):
            assert await self.log_in("ann", password, "127.0.0.2") == ""
        await self.check_session(await self.log_in("ann", "secret"))
        cookie = await self.log_in("bob", "secret")
        assert (await self.submit(NEW_REQUEST, cookie=cookie, **REQUEST))[0] == 303
        assert [request.who for request in self.ledger.requests.all()] == ["bob"]

    async def log_in(self, name: str, password: str, source: str = "127.0.0.1") -> str:
        """Logs in; returns the cookie of the session, or "" after a failure."""
        credentials = base64.b64encode(f"{name}:{password}".encode()).decode()
        head = (
            f"GET /auth/login HTTP/1.1\r\nconnection: close\r\nauthorization: Basic {credentials}"
        )
        reply = await threads.deferToThread(self.send, f"{head}\r\n\r\n".encode(), source)
        assert reply[9:12] in (b"302", b"401")
        cookies = re.findall(rb"(?mi)^set-cookie: ([^;]*)", reply)
        return cookies[-1].decode() if reply[9:12] == b"302" else ""

    async def check_session(self, cookie: str) -> None:
        """Asserts that ann is known and may not request measurements."""
        assert (await self.submit(NEW_REQUEST, cookie=cookie, **REQUEST))[0] == 403
        assert (await self.submit(NEW_REQUEST, **REQUEST))[0] == 403
        body = {"kind": "compare", "subjects": ["main~1", "main"], "dry_run": True}
        for origin in ({}, {"origin": "https://x.invalid"}):
            answer = await self.call("POST", f"{API}/requests", "", body, cookie=cookie, **origin)
            assert answer.code == 403
        caller = await self.read_json(await self.call("GET", f"{API}/caller", "", cookie=cookie))
        assert caller["who"] == "ann"
        assert self.ledger.requests.all() == []
