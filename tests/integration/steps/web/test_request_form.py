"""Request forms."""

from __future__ import annotations

import base64
import shutil
import subprocess
from typing import Any

import bcrypt
import pytest
import treq
from api_master import API, DIFF, ORIGIN, ApiMaster
from real_master import case
from twisted.internet import reactor, task, threads

from netbisect.steps.service.web_settings import LoginSettings, PeopleRule
from netbisect.steps.web.request_form import make_form_builder, make_forms

CHROMIUM = shutil.which("chromium") or shutil.which("chrome") or shutil.which("chromium-browser")
GOOD = {
    "subjects": "main~1 main",
    "testbeds": ["c2558"],
    "scenarios": "",
    "branch_name": "main",
    "boots": "2",
    "priority_level": "normal",
    "address": "",
    "margin_percent": "",
}


@pytest.mark.slow
class Form(ApiMaster):
    """Forms of a master with htpasswd logins."""

    async def open(self, *rights: str) -> str:
        """Starts a master; returns the cookie of the user ann."""
        users = self.folder / "users"
        users.write_bytes(b"ann:" + bcrypt.hashpw(b"secret", bcrypt.gensalt(4)))
        users.chmod(0o600)
        self.change(login=LoginSettings("htpasswd", users), people=(PeopleRule(("ann",), rights),))
        workers, builders = make_form_builder(self.settings)
        await self.serve(
            more=make_forms(self.settings, self.lab), more_workers=workers, more_builders=builders
        )
        return await self.login("ann", "secret")

    async def login(self, name: str, password: str) -> str:
        basic = base64.b64encode(f"{name}:{password}".encode()).decode()
        answer = await self.call("GET", "auth/login", authorization=f"Basic {basic}", follow=False)
        await treq.content(answer)
        cookies = answer.headers.getRawHeaders("set-cookie") or [""]
        return cookies[-1].partition(";")[0] if answer.code == 302 else ""

    async def send(self, kind: str, cookie: str, **fields: Any) -> tuple[int, Any]:
        builder = await self.master.data.updates.findBuilderId("ask")
        params = {"builderid": str(builder), **GOOD, **fields}
        body = {"id": 1, "jsonrpc": "2.0", "method": "force", "params": params}
        answer = await self.call(
            "POST", f"api/v2/forceschedulers/ask-{kind}", "", body, cookie=cookie, origin=ORIGIN
        )
        answered = await self.read_json(answer)
        return answer.code, answered.get("result", answered.get("error", {}).get("message"))

    @case
    async def test_a_form_submits_a_request(self) -> None:
        cookie = await self.open("ask", "patch")
        bench = await self.master.data.updates.findBuilderId("bench-c2558")
        assert (await self.send("compare", cookie, builderid=str(bench)))[0] == 403
        status, answered = await self.send("compare", cookie, owner="root")
        assert status == 200, answered
        [request] = self.ledger.requests.all()
        assert (request.who, request.via, request.wish["boots"]) == ("ann", "form", 2)
        [brid] = answered[1].values()

        async def over() -> bool:
            return bool((await self.master.data.get(("buildrequests", brid)))["complete"])

        while not await over():
            await task.deferLater(reactor, 0.05)
        builder = await self.master.data.updates.findBuilderId("ask")
        [build] = await self.master.data.get(("builders", builder, "builds"))
        steps = await self.master.data.get(("builds", build["buildid"], "steps"))
        [step] = (one for one in steps if one["name"] == "receipt")
        assert (build["results"], step["state_string"]) == (0, "request 1")
        assert step["urls"][0]["url"].endswith("/netbisect/request-1.html")
        page = await self.call("GET", "plugins/netbisect/reports/request-1.html", "")
        assert "Request 1" in (await treq.text_content(page))

        status, answered = await self.send("compare", cookie, subjects="main", diff=DIFF)
        assert status == 200, answered
        assert "+patch-" in self.ledger.requests.all()[0].wish["subjects"][1]
        status, answered = await self.send("compare", cookie, dry_run=True)
        assert (status, len(self.ledger.requests.all())) == (200, 2)

    @case
    async def test_errors_appear_at_their_fields(self) -> None:
        cookie = await self.open("ask")
        for kind, fields, wrong in (
            ("compare", {"subjects": "nosuch main"}, "subjects"),
            ("compare", {"subjects": "$(reboot) main"}, "subjects"),
            ("compare", {"subjects": "main main"}, "subjects"),
            ("compare", {"subjects": "main", "diff": DIFF}, "diff"),
            ("compare", {"subjects": "main+D5180 main"}, "subjects"),
            ("compare", {"scenarios": "<script>"}, "scenarios"),
            ("compare", {"testbeds": ["other"]}, "testbeds"),
            ("compare", {"boots": "101"}, "boots"),
            ("compare", {"boots": "many"}, "boots"),
            ("compare", {"margin_percent": "x"}, "margin_percent"),
            ("compare", {"margin_percent": "nan"}, "margin_percent"),
            ("compare", {"priority_level": "high"}, "subjects"),
            ("compare", {"priority_level": "first"}, "priority_level"),
            ("compare", {"address": "x y"}, "address"),
            ("compare", {"branch_name": "../x"}, "branch_name"),
            ("bisect", {"subjects": "main..main~2"}, "subjects"),
            ("bisect", {"subjects": "main~2..main", "hours": "-1"}, "hours"),
            ("series", {"subjects": "main"}, "subjects"),
        ):
            status, answered = await self.send(kind, cookie, **fields)
            assert (status, list(answered)) == (400, [wrong]), (fields, answered)
        assert self.ledger.requests.all() == []
        assert {one.what for one in self.ledger.requests.audit()} == {"refuse"}

    @case
    async def test_forms_need_the_right_ask(self) -> None:
        cookie = await self.open("read")
        assert (await self.send("compare", cookie))[0] == 403
        assert (await self.send("compare", ""))[0] == 403
        assert await self.login("ann", "wrong") == ""
        assert await self.login("eve", "secret") == ""

        self.change(people=(PeopleRule(("ann",), ("ask",)),))
        body = {"kind": "compare", "subjects": ["main~1", "main"], "dry_run": True}
        path = f"{API}/requests"
        wrong = await self.call("POST", path, "", body, cookie=cookie)
        assert wrong.code == 403
        there = await self.call("POST", path, "", body, cookie=cookie, origin="https://x.invalid")
        assert there.code == 403
        answered = await self.read_json(await self.call("GET", f"{API}/caller", "", cookie=cookie))
        assert answered["who"] == "ann"

    async def browse(self, place: str) -> str:
        """A page as a browser shows it; netbisect's scripts complain about nothing."""
        command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"]
        command += ["--virtual-time-budget=8000", f"--user-data-dir={self.folder / 'profile'}"]
        command += ["--enable-logging=stderr", "--dump-dom"]
        command.append(f"http://127.0.0.1:{self.master.www.getPortnum()}/{place}")
        done = await threads.deferToThread(
            subprocess.run, command, capture_output=True, text=True, timeout=300, check=True
        )
        complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        assert [line for line in complaints if "netbisect" in line] == []
        return str(done.stdout)

    @pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
    @case
    async def test_a_browser_shows_the_overview_and_the_form(self) -> None:
        await self.open("ask")
        assert '<iframe src="plugins/netbisect/index.html"' in await self.browse("")
        builder = await self.master.data.updates.findBuilderId("ask")
        page = await self.browse(f"#/builders/{builder}/force/ask-compare")
        for message in (
            "Compare two revisions",
            "Diff, applied",
            "Testbeds",
            "Only estimate the cost",
        ):
            assert message in page
