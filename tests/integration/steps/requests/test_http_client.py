"""`netbisect request --server`."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_master import DIFF, ApiMaster
from click.testing import CliRunner, Result
from programs import netbisect
from real_master import case
from twisted.internet import threads

from netbisect.cli import main
from netbisect.reports.documents import api
from netbisect.steps.requests.http_client import HttpClient, ServerError


class CommandsTest(ApiMaster):
    async def run_command(self, *arguments: str, token: str) -> Result:
        place = self.folder / "token"
        place.write_text(f"{token}\n")
        place.chmod(0o600)
        url = f"http://127.0.0.1:{self.master.www.getPortnum()}/"
        more = ["--server", url, "--token-file", str(place)]
        return await threads.deferToThread(
            CliRunner().invoke, main.main, ["request", *arguments, *more]
        )

    @pytest.mark.long
    @case
    async def test_requests_are_submitted_awaited_changed_and_rejected(self) -> None:
        """The exit status of rejected commands is 3."""
        self.script({await self.head(): {"build": "fail"}})
        await self.serve()
        token = self.token("ask")
        cost = await self.run_command("compare", "main~1", "main", "--dry-run", token=token)
        assert (cost.exit_code, "c2558" in cost.output) == (0, True), cost.output
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HttpClient, "poll_seconds", 0.05)
            done = await self.run_command("compare", "main~1", "main", "--wait", token=token)
        assert done.exit_code == 3, done.output
        assert "as the script says" in done.output
        shown = await self.run_command("show", "1", "--json", token=token)
        assert json.loads(shown.output)["verdict"] == "failed"
        listed = await self.run_command("list", "--all", "--mine", "--json", token=token)
        assert [request["number"] for request in json.loads(listed.output)] == [1]

        diff = self.folder / "fix.diff"
        diff.write_bytes(DIFF.encode() + b"+\xff\n")
        for message, arguments in (
            ("nosuch", ("compare", "nosuch", "main")),
            ("the right `patch`", ("compare", "main", "--patch", str(diff))),
            ("the right `priority`", ("compare", "main~1", "main", "--priority", "high")),
            ("there is no request 99", ("cancel", "99")),
            ("the right `admin`", ("audit",)),
        ):
            done = await self.run_command(*arguments, token=token)
            assert done.exit_code == 3, done.output
            assert message in done.output
        done = await self.run_command("list", token="netbisect-1-x")
        assert (done.exit_code, "expected Authorization" in done.output) == (3, True)
        audit = await self.run_command("audit", token=self.token("admin", who="root"))
        assert "127.0.0.1" in audit.output
        assert "refuse" in audit.output

        self.script({"c2558": {"trial": "wait"}})
        token = self.token("ask", "patch")
        for arguments in (
            ("compare", "main~1", "--patch", str(diff)),
            ("priority", "2", "low"),
            ("extend", "2", "--boots", "2"),
            ("cancel", "2", "--why", "wrong"),
        ):
            done = await self.run_command(*arguments, token=token)
            assert done.exit_code == 0, done.output
        changes = [entry.what for entry in self.ledger.requests.audit(request=2)]
        assert changes == ["ask", "priority", "extend", "cancel"]
        await self.until(lambda: not self.ledger.actions.held())

    async def head(self) -> str:
        return (self.folder / "work" / ".git" / "refs" / "heads" / "main").read_text().strip()


class _RedirectingHandler(http.server.BaseHTTPRequestHandler):
    """Redirects all calls and records their paths."""

    seen: list[str] = []  # noqa: RUF012 - one list for all calls

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(302 if "other" not in self.path else 200)
        self.send_header("location", "/other")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def other_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _RedirectingHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_is_sent_to_no_other_server(
    other_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redirects are not followed, and the local host needs no proxy."""
    with pytest.raises(ServerError, match="302"):
        HttpClient(other_server, "t").get("caller", api.Caller)
    monkeypatch.setenv("http_proxy", other_server)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ServerError, match="cannot be reached") as error:
        HttpClient("http://127.0.0.1:1/", "t").get("caller", api.Caller)
    assert error.value.temporary
    assert not any(part in path for path in _RedirectingHandler.seen for part in ("other", ":1/"))


def test_invalid_server_options_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server on another host needs https."""
    for address in ("http://lab.invalid/", "ftp://lab.invalid/", "lab.invalid", "https://", ""):
        with pytest.raises(ServerError, match="https://"):
            HttpClient(address, "t")
    monkeypatch.chdir(tmp_path)
    Path("token").write_text("t\n")
    Path("token").chmod(0o600)
    for options, message in (
        (("https://lab.invalid/",), "--token-file"),
        (("https://lab.invalid/", "--who", "ann"), "--who and --server are mutually exclusive"),
        (("http://lab.invalid/", "--token-file", "token"), "https://"),
    ):
        done = netbisect("request", "list", "--server", *options)
        assert done.exit_code == 3
        assert message in done.output
