"""Pages over HTTP: searches, forms, logins and accessibility."""

from __future__ import annotations

import math
import threading
from typing import Any
from unittest import mock

import pytest
import treq
from accessibility import CHROMIUM, MISSING, browse, findings
from api_master import DIFF, NEW_REQUEST, ORIGIN, REQUEST, ApiMaster
from real_master import case
from twisted.internet import defer, threads

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.jobs import MeasureJob, ProfileJob
from netbisect.bisect.model.metric import split_settings
from netbisect.reports.documents.api import AskBody
from netbisect.steps.policy.request_spec import PRIORITIES
from netbisect.steps.service.compute import ComputeError
from netbisect.steps.web import pages
from netbisect.steps.web.responses import LAB_FILE
from netbisect.workers.config.toml import FileError


class PagesTest(ApiMaster):
    """A master with an alert, and with a user who is logged in."""

    def log_in(self, **user: Any) -> None:
        """Replaces the user of all calls."""
        self.master.www.getUserInfos = lambda _: user

    @pytest.mark.long
    @case
    async def test_users_with_the_right_change_an_alert_and_request_measurements(self) -> None:
        await self.serve_ann("ask")
        await self.check_alert()
        await self.check_refusals()
        await self.check_options()
        await self.check_search()

    async def check_alert(self) -> None:
        """Asserts that its history and its page have the name and the reason."""
        self.log_in(anonymous=True)
        code, text = await self.submit(verb="ack", why="x")
        assert code == 403
        assert "changing an alert needs a login" in text
        assert f'<a href="{ORIGIN}/auth/login?redirect=/netbisect"' in text
        self.log_in(username="eve")
        code, text = await self.submit(verb="ack", why="x")
        assert code == 403
        assert "needs the right `ask`" in text

        self.log_in(username="ann")
        for fields, message in (
            ({"verb": "ack", "why": " "}, "needs a reason, and none was given"),
            ({"verb": "drop", "why": "x"}, "expected one of ack, mute"),
            ({"verb": "mute", "why": "x", "until": "2001-01-01"}, "is not after today"),
            ({"verb": "mute", "why": "x"}, "not a date such as 2026-12-31"),
            ({"verb": "ack", "why": "x", "origin": "https://elsewhere.invalid"}, "cross-origin"),
        ):
            code, text = await self.submit(**fields)
            assert code in (403, 409), fields
            assert message in text
            assert "Log in" not in text  # the user is logged in
        assert self.ledger.alerts.get(1).state is AlertState.OPEN

        assert (await self.submit(verb="ack", why="the price of a fix"))[0] == 303
        assert self.ledger.alerts.get(1).state is AlertState.ACKNOWLEDGED
        last = self.ledger.alerts.changes(1)[-1]
        assert (last.who, last.what) == ("ann", "the price of a fix")
        page = await self.page("alert-1.html")
        assert "the price of a fix" in page
        assert '<form class="act" method="post" action="alert-1.html">' in page

    async def page(self, name: str) -> str:
        return await treq.text_content(await self.call("GET", f"plugins/netbisect/{name}"))

    @pytest.mark.long
    @case
    async def test_a_failed_page_is_answered_by_one_sentence(self) -> None:
        """A page whose reader has gone is no error."""
        await self.serve()
        await self.check_abandoned_page()
        for error, status, sentence in (
            (ComputeError("no end"), 503, "The page was not ready in time; try again later.\n"),
            (OSError("no disk"), 500, "The page failed; twistd.log has the reason.\n"),
        ):
            with mock.patch.object(pages, "_live") as live:
                live.file.side_effect = error
                answer = await self.call("GET", "plugins/netbisect/index.html")
            assert (answer.code, await treq.text_content(answer)) == (status, sentence)
            assert len(self.flushLoggedErrors(type(error))) == 1
        self.settings.lab.write_text("[source")
        answer = await self.call("GET", "plugins/netbisect/index.html")
        assert (answer.code, await treq.text_content(answer)) == (503, f"{LAB_FILE}\n")
        assert len(self.flushLoggedErrors(FileError)) == 1

    async def check_abandoned_page(self) -> None:
        begun, gone = threading.Event(), threading.Event()

        def slow(*_: object) -> str:
            begun.set()
            gone.wait(60)
            return "late"

        path = "plugins/netbisect/index.html"
        with mock.patch.object(pages, "_live") as live:
            live.file.side_effect = slow
            live.unread.side_effect = [2, 1, 0]
            waiting = defer.ensureDeferred(self.call("GET", path))
            waiting.addErrback(lambda _: None)
            await threads.deferToThread(begun.wait, 60)
            waiting.cancel()
            await self.call("GET", "plugins/netbisect/metrics")  # the master has seen the end
            gone.set()
            await self.until(lambda: live.unread.call_count == 3)  # series are read ahead
            after = await self.call("GET", path)

        assert await treq.text_content(after) == "late"

    @case
    async def test_a_patch_is_requested_shown_and_cancelled_on_pages(self) -> None:
        await self.serve_ann("ask", "patch")
        fields = REQUEST | {"subjects": "main", "branch": "main", "diff": DIFF}
        fields["scenarios"] = "inet4-forwarding"
        code, _ = await self.submit(NEW_REQUEST, **fields)
        [request] = self.ledger.requests.all()

        assert code == 303
        assert (request.who, request.via) == ("ann", "form")
        assert "+patch-" in request.parameters["subjects"][1]
        assert '.html">1</a></th><td class="answer">compare n' in await self.page("requests.html")
        assert '<a href="request-1.html">measurement 2</a>' in await self.page("index.html")
        page = await self.page("request-1.html")
        assert '<meta http-equiv="refresh"' in page
        assert "measurement on c2558: 0 of" in page
        address = "plugins/netbisect/request-1.html"
        assert (await self.submit(address, verb="extend", boots="2"))[0] == 303
        assert (await self.submit(address, verb="cancel", why="wrong patch"))[0] == 303
        page = await self.page("request-1.html")
        assert "wrong patch" in page
        assert '<meta http-equiv="refresh"' not in page
        assert ">Resume</button>" in page
        await self.until(lambda: not self.ledger.actions.held())
        assert (await self.submit(address, verb="resume"))[0] == 303
        changes = [entry.what for entry in self.ledger.requests.audit(request=1)]
        assert changes == ["ask", "extend", "cancel", "resume"]
        # A build that starts during the stop of its master blocks the stop.
        assert (await self.submit(address, verb="cancel", why="the test ends"))[0] == 303
        await self.until(lambda: not self.ledger.actions.held())

    async def check_options(self) -> None:
        """Asserts that the form has all options of a request."""
        before = self.ledger.requests.all()
        assert 'href="new-request.html"' in await self.page("requests.html")
        page = await self.page("new-request.html")
        assert '<meta http-equiv="refresh"' not in page
        for name in AskBody.__dataclass_fields__:
            assert f'name="{name if name != "patches" else "diff"}"' in page
        fields = REQUEST | {"scenarios": "all", "tunables": "hw.x=1 sysctl:net.inet.tcp.tso=0"}
        fields |= {"boots": "2", "margin_percent": "1.5", "repeat": "yes", "fresh": "yes"}
        fields |= {"priority": "low", "address": "ann@example.org"}
        code, text = await self.submit(NEW_REQUEST, **fields, dry_run="yes")
        assert code == 200
        assert "Nothing is queued" in text
        assert "testbed  builds  boots" in text
        assert self.ledger.requests.all() == before

        assert (await self.submit(NEW_REQUEST, **fields))[0] == 303
        [request] = [one for one in self.ledger.requests.all() if one.who == "ann"]
        [job] = [record.job for record in self.ledger.requests.jobs(request.id)]
        assert isinstance(job, MeasureJob)
        assert (job.boots, job.shared_since) == (2, math.inf)
        assert job.min_effect == pytest.approx(-math.log(0.985))
        assert {"hw.x=1", "sysctl:net.inet.tcp.tso=0"} < {
            split_settings(scenario)[1] for scenario in job.scenarios
        }
        assert (request.parameters["runs"], request.priority) == (2, PRIORITIES["low"])
        assert request.address == "ann@example.org"

    async def check_refusals(self) -> None:
        """Asserts that an invalid request is refused with a reason."""
        await self.record(201, self.token("ask", who="bob"), testbeds=["c2558"])
        of_bob = "plugins/netbisect/request-1.html"
        for page, fields, message in (
            (NEW_REQUEST, {"subjects": "main", "diff": DIFF}, "need the right `patch`"),
            (NEW_REQUEST, {"subjects": "main+D5180 main"}, "need the right `patch`"),
            (NEW_REQUEST, {"scenarios": "<script>"}, "scenarios: "),
            (NEW_REQUEST, {"tunables": "sysctl:net.inet.tcp.tso"}, "expected NAME=VALUE"),
            (NEW_REQUEST, {"testbeds": ["c2558", "other"]}, "testbeds: unknown testbed"),
            (NEW_REQUEST, {"boots": "many", "branch": "../x"}, "boots: expected a whole number"),
            (NEW_REQUEST, {"margin_percent": "x"}, "margin_percent: expected a number"),
            (NEW_REQUEST, {"margin_percent": "nan"}, "is not a JSON number"),
            (NEW_REQUEST, {"priority": "high"}, "needs the right `priority`"),
            (NEW_REQUEST, {"priority": "first"}, "priority: "),
            (NEW_REQUEST, {"kind": "bisect", "subjects": "main~2..main", "hours": "-1"}, "hours: "),
            (NEW_REQUEST, {"kind": "series", "subjects": "main"}, "subjects: "),
            (NEW_REQUEST, {"kind": "all"}, "kind: "),
            (of_bob, {"verb": "cancel"}, "bob"),
            (of_bob, {"verb": "stop"}, "expected cancel, extend or resume"),
            (of_bob, {"verb": "extend", "boots": "3"}, "bob"),
            (of_bob, {"verb": "extend", "boots": "x"}, "boots: expected a whole number"),
        ):
            given = REQUEST | fields if page == NEW_REQUEST else fields
            code, text = await self.submit(page, **given)
            assert code in (403, 409), fields
            assert message in text, (fields, text)
        assert len(self.ledger.requests.all()) == 1
        refused = [entry for entry in self.ledger.requests.audit() if entry.what == "refuse"]
        assert {(entry.who, entry.via) for entry in refused} == {("ann", "form")}
        assert [entry.what for entry in self.ledger.requests.audit(request=1)] == ["ask"]

    async def check_search(self) -> None:
        """Asserts that the search field finds revisions of the tree, 20 a minute."""
        answer = await self.call("GET", "plugins/netbisect/search?q=main~1", follow=False)
        [place] = answer.headers.getRawHeaders("location")
        assert answer.code == 303
        assert "Change 2" in await self.page(place)
        missing = await self.call("GET", "plugins/netbisect/search?q=nothing")
        assert missing.code == 404
        assert "no kernel of it was measured" in await treq.text_content(missing)
        codes = [(await self.call("GET", "plugins/netbisect/search")).code for _ in range(25)]
        assert codes[-1] == 429

    @pytest.mark.long
    @pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
    @case
    async def test_a_browser_shows_the_overview_in_buildbots_pages(self) -> None:
        """The console of the browser has no message about scripts of netbisect."""
        await self.serve_ann("ask")
        address = f"http://127.0.0.1:{self.master.www.getPortnum()}/"
        options = address, self.folder / "profile", "--enable-logging=stderr", "--dump-dom"
        done = await threads.deferToThread(browse, *options)
        messages = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        assert [line for line in messages if "netbisect" in line] == []
        assert '<iframe src="plugins/netbisect/index.html"' in done.stdout


PAGES = (
    "index.html",
    "alert-1.html",
    "requests.html",
    "new-request.html",
    "request-1.html",
    "profile-3.html",
    "nothing.html",
)
"""Pages with forms, and pages that the site does not have."""


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} is not installed")
class AccessibilityTest(ApiMaster):
    @case
    async def test_the_accessibility_checker_reports_no_violation(self) -> None:
        await self.serve_ann("ask")
        await self.record(201, self.token("ask"), testbeds=["c2558"])
        self.ledger.jobs.add(ProfileJob("main", "c2558", ("a" * 40,), ("s",)), key="profile")
        pages = {
            name: await treq.text_content(await self.call("GET", f"plugins/netbisect/{name}"))
            for name in PAGES
        }

        assert findings(pages, "light", self.folder) == {}
