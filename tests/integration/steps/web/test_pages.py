"""Pages over HTTP: searches, and forms that change alerts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from urllib.parse import urlencode

import treq
from api_master import DIFF, ORIGIN, ApiMaster
from real_master import case

from netbisect.bisect.model.alert_state import AlertState

_ADDRESS = "plugins/netbisect/alert-1.html"


def test_the_web_server_loads_no_numeric_or_drawing_code() -> None:
    """The master renders no page itself."""
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys, netbisect.steps.web, netbisect.steps.site.source; "
                "print({name.partition('.')[0] for name in sys.modules} "
                "& {'numpy', 'scipy', 'matplotlib'})"
            ),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert loaded.stdout.strip() == "set()"


class Pages(ApiMaster):
    """A master with an alert, and a user who is logged in."""

    async def send(
        self, page: str = _ADDRESS, origin: str = ORIGIN, **fields: str
    ) -> tuple[int, str]:
        answer = await self.call(
            "POST",
            page,
            "",
            urlencode(fields).encode(),
            follow=False,
            origin=origin,
            content_type="application/x-www-form-urlencoded",
        )
        return answer.code, await treq.text_content(answer)

    def enter(self, **user: Any) -> None:
        self.master.www.getUserInfos = lambda _: user

    @case
    async def test_users_with_the_right_change_an_alert(self) -> None:
        """Name and reason are in its history, and on its page."""
        await self.serve_ann("ask")
        self.enter(anonymous=True)
        code, text = await self.send(verb="ack", why="x")
        assert code == 403
        assert "changing an alert needs a login" in text
        assert f'<a href="{ORIGIN}/auth/login?redirect=/netbisect"' in text
        self.enter(username="eve")
        code, text = await self.send(verb="ack", why="x")
        assert code == 403
        assert "needs the right `ask`" in text

        self.enter(username="ann")
        for fields, message in (
            ({"verb": "ack", "why": " "}, "needs a reason, and none was given"),
            ({"verb": "drop", "why": "x"}, "expected one of ack, mute"),
            ({"verb": "mute", "why": "x", "until": "2001-01-01"}, "is not after today"),
            ({"verb": "mute", "why": "x"}, "is not a date such as 2026-12-31"),
            ({"verb": "ack", "why": "x", "origin": "https://elsewhere.invalid"}, "cross-origin"),
        ):
            code, text = await self.send(**fields)
            assert code in (403, 409), fields
            assert message in text
            assert "Log in" not in text  # the user is logged in
        assert self.ledger.alerts.get(1).state is AlertState.OPEN

        assert (await self.send(verb="ack", why="the price of a fix"))[0] == 303
        assert self.ledger.alerts.get(1).state is AlertState.ACKNOWLEDGED
        last = self.ledger.alerts.changes(1)[-1]
        assert (last.who, last.what) == ("ann", "the price of a fix")
        page = await self.show("alert-1.html")
        assert "the price of a fix" in page
        assert '<form class="act" method="post" action="alert-1.html">' in page

    async def show(self, page: str) -> str:
        return await treq.text_content(await self.call("GET", f"plugins/netbisect/{page}"))

    @case
    async def test_a_fix_is_asked_for_followed_and_cancelled_on_pages(self) -> None:
        await self.serve_ann("ask", "patch")
        wish = {"subjects": "main", "testbeds": "c2558", "branch": "main", "diff": DIFF}
        wish["scenarios"] = "inet4-forwarding"
        code, _ = await self.send("plugins/netbisect/requests.html", **wish)
        [request] = self.ledger.requests.all()

        assert code == 303
        assert (request.who, request.via) == ("ann", "form")
        assert "+patch-" in request.wish["subjects"][1]
        assert 'href="request-1.html"' in await self.show("requests.html")
        page = await self.show("request-1.html")
        assert '<meta http-equiv="refresh"' in page
        assert "measurement on c2558: 0 of" in page
        address = "plugins/netbisect/request-1.html"
        assert (await self.send(address, verb="extend", boots="2"))[0] == 303
        assert (await self.send(address, verb="cancel", why="wrong patch"))[0] == 303
        page = await self.show("reports/request-1.html")
        assert "wrong patch" in page
        assert '<meta http-equiv="refresh"' not in page
        assert ">Resume</button>" in page
        await self.until(lambda: not self.ledger.actions.held())
        assert (await self.send(address, verb="resume"))[0] == 303
        whats = [one.what for one in self.ledger.requests.audit(request=1)]
        assert whats == ["ask", "extend", "cancel", "resume"]
        # A build that starts while its master stops would keep the master from stopping.
        assert (await self.send(address, verb="cancel", why="the test ends"))[0] == 303
        await self.until(lambda: not self.ledger.actions.held())

    @case
    async def test_a_wrong_request_is_refused_with_a_reason(self) -> None:
        await self.serve_ann("ask")
        await self.record(201, self.token("ask", who="bob"), testbeds=["c2558"])
        asks, one = "plugins/netbisect/requests.html", "plugins/netbisect/request-1.html"
        for page, fields, message in (
            (asks, {"subjects": "main nosuch"}, "nosuch"),
            (asks, {"subjects": "main"}, "expected"),
            (asks, {"subjects": "main", "diff": DIFF}, "need the right `patch`"),
            (one, {"verb": "cancel"}, "bob"),
            (one, {"verb": "stop"}, "expected cancel, extend or resume"),
            (one, {"verb": "extend", "boots": "x"}, "bob"),
        ):
            code, text = await self.send(page, **fields)
            assert code in (403, 409), fields
            assert message in text, text
        assert [one.what for one in self.ledger.requests.audit(request=1)] == ["ask"]

        await self.check_search()

    async def check_search(self) -> None:
        """A search finds revisions of the tree."""
        answer = await self.call("GET", "plugins/netbisect/search?q=main~1", follow=False)
        [place] = answer.headers.getRawHeaders("location")
        assert answer.code == 303
        assert "Change 2" in await self.show(place)
        missing = await self.call("GET", "plugins/netbisect/search?q=nothing")
        assert missing.code == 404
        assert "no kernel of it was measured" in await treq.text_content(missing)
