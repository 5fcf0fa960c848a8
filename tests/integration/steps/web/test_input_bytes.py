"""Invalid text and wrong passwords in HTTP requests."""

from __future__ import annotations

import base64
import itertools
import json
import socket
from collections.abc import Iterator
from dataclasses import replace

import bcrypt
import pytest
from api_master import API, ApiMaster
from real_master import case
from twisted.internet import threads

STRANGE = (b"\xff", b"\xed\xa0\x80", b"\x00", b"%ff", "é".encode())
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


def headers(strange: bytes) -> Iterator[bytes]:
    """Header lines with these bytes."""
    yield from (name + b": " + strange for name in HEADERS)
    for form in (b"%s", b"%s.%s.%s", b"a.%s.c", b"e30.e30.%s"):
        session = form.replace(b"%s", strange)
        yield b"cookie: TWISTED_SESSION=" + session
    for shown in (
        b"Bearer " + strange,
        b"Basic " + strange,
        b"Basic " + base64.b64encode(strange),
        b"Basic " + base64.b64encode(strange + b":" + strange),
        b'Digest username="' + strange + b'"',
        strange,
        b"Basic",
    ):
        yield b"authorization: " + shown


def addresses(page: bytes, strange: bytes) -> Iterator[bytes]:
    """URLs of a page with these bytes."""
    for form in (b"%s/%s", b"%s?%s", b"%s?name=%s", b"%s%s"):
        yield form.replace(b"%s", page, 1).replace(b"%s", strange, 1)


class InvalidText(ApiMaster):
    """A master with logins and a hook."""

    timeout = 300

    async def serve(self, **others: object) -> None:
        hook, users = self.folder / "hook", self.folder / "users"
        hook.write_text("git:secret\n")
        users.write_bytes(b"ann:" + bcrypt.hashpw(b"secret", bcrypt.gensalt(4)) + b"\n")
        for path in (hook, users):
            path.chmod(0o600)
        login = replace(self.settings.web.login, kind="htpasswd", users_file=users)
        self.change(hook_file=hook, login=login)
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
    @pytest.mark.slow
    @case
    async def test_invalid_text_in_headers_and_urls_causes_no_error(self) -> None:
        await self.serve()
        await threads.deferToThread(self.everywhere)

    def everywhere(self) -> None:
        rest = b"\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"
        requests = [
            verb + b" /" + page + b" HTTP/1.1\r\n" + header + rest
            for page, verb, strange in itertools.product(HEADER_PAGES, (b"GET", b"POST"), STRANGE)
            for header in headers(strange)
        ] + [
            b"GET /" + address + b" HTTP/1.1\r\nhost: x" + rest
            for page, strange in itertools.product(PAGES, STRANGE)
            for address in addresses(page, strange)
        ]
        for request in requests:
            reply = self.send(request)
            assert reply.startswith(b"HTTP/1.1 "), request
            assert reply[9:12] != b"500", (request, self.flushLoggedErrors())
            assert self.flushLoggedErrors() == [], request

    @case
    async def test_invalid_text_and_wrong_passwords_are_rejected(self) -> None:
        """Failed logins delay only their own address."""
        await self.serve()
        head = f"GET /{API}/caller HTTP/1.1\r\nconnection: close\r\nauthorization: ".encode()
        for shown in (b"Bearer \xff", b"Basic \xff", b"\xff", b"Bearer"):
            reply = await threads.deferToThread(self.send, head + shown + b"\r\n\r\n")
            assert reply.startswith(b"HTTP/1.1 401 "), shown
        path = f"GET /{API}/revisions?name=%ff HTTP/1.1\r\nconnection: close\r\n\r\n".encode()
        reply = await threads.deferToThread(self.send, path)
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert "UTF-8" in json.loads(reply.partition(b"\r\n\r\n")[2])["error"]

        def log_in(name: str, password: str, source: str = "127.0.0.1") -> bytes:
            shown = base64.b64encode(f"{name}:{password}".encode()).decode()
            lines = (
                "GET /auth/login HTTP/1.1",
                "connection: close",
                f"authorization: Basic {shown}",
            )
            return self.send("".join(f"{line}\r\n" for line in (*lines, "")).encode(), source)[9:12]

        def work() -> None:
            assert {log_in("ann", "wrong", "127.0.0.2") for _ in range(10)} == {b"401"}
            assert log_in("ann", "secret", "127.0.0.2") == b"401"
            assert log_in("ann", "secret") == b"302"

        await threads.deferToThread(work)
