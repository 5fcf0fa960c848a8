"""HTTP responses of a real master: pages, documents, feed, badges."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import treq
from api_master import ApiMaster
from real_master import case

from netbisect.bisect.model.entities import Commit

GOOD, BAD = "a" * 40, "b" * 40
HOSTILE = "]]> <script>alert(1)</script> & \x07"


class WebTest(ApiMaster):
    def learn(self) -> None:
        commits = [
            Commit(name, number, HOSTILE, "", HOSTILE, "", 1e9)
            for number, name in enumerate((GOOD, BAD), 302145)
        ]
        self.ledger.commits.learn(commits, "main")

    async def text(self, path: str) -> str:
        answer = await self.call("GET", path)
        assert answer.code == 200, (path, answer.code)
        return str(await treq.text_content(answer, "utf-8"))

    async def rest(self, path: str) -> Any:
        return json.loads(await self.text(f"api/v2/{path}"))

    @pytest.mark.long
    @case
    async def test_the_page_of_a_trial_has_ministat_and_links(self) -> None:
        self.learn()
        await self.serve()
        await self.closed(self.add_night(GOOD, boots=3))
        await self.closed(self.add_night(BAD, boots=3))
        builder = await self.master.data.updates.findBuilderId("bench-c2558")
        builds = (await self.rest(f"builders/{builder}/builds?order=buildid"))["builds"]
        assert [build["results"] for build in builds] == [0] * 6

        first, last = builds[0]["buildid"], builds[-1]["buildid"]
        texts = []
        for build in (first, last):
            steps = (await self.rest(f"builds/{build}/steps"))["steps"]
            [step] = (found for found in steps if found["name"] == "compare")
            assert [(url["name"], url["url"].rpartition("/")[2]) for url in step["urls"]] == [
                ("overview", "index.html")
            ]
            assert step["results"] == 0
            [log] = (await self.rest(f"steps/{step['stepid']}/logs"))["logs"]
            assert (log["name"], log["type"]) == ("ministat", "t")
            texts.append(await self.text(f"api/v2/logs/{log['logid']}/raw"))
        assert "ministat compares two kernels with at least 3 boots each" in texts[0]
        assert re.search(r"^x n302145-a{12}$", texts[1], re.MULTILINE)
        assert "    N           Min           Max        Median           Avg" in texts[1]
        assert "confidence" in texts[1]

    @case
    async def test_documents_feed_badges_and_overview_are_served(self) -> None:
        self.learn()
        await self.serve()
        assert "No night yet." in await self.text("plugins/netbisect/")
        await self.closed(self.add_night(GOOD, boots=1))
        await self.check_documents()
        for path in (
            "badges/other.svg",
            "badges/main",
            "badges/main/c2558/x.svg",
            "badges/..%2f..%2fnetbisect.toml.svg",
            "data/alert-1.json",
            "data/alert-99999999999999999999999.json",
            "data/night-1.json",
            "reports/..%2fnetbisect.toml",
        ):
            assert (await self.call("GET", f"plugins/netbisect/{path}")).code == 404, path
        assert (await self.call("GET", "plugins/netbisect/data/x%00")).code == 400
        first = await self.call("GET", "plugins/netbisect/badges/main.svg")
        [etag] = first.headers.getRawHeaders("etag")

        assert first.headers.getRawHeaders("cache-control") == ["max-age=60"]
        again = await self.call("GET", "plugins/netbisect/badges/main.svg", if_none_match=etag)
        assert (again.code, await treq.content(again)) == (304, b"")
        other = await self.call("GET", "plugins/netbisect/badges/main.svg", if_none_match='"x"')
        assert (other.code, len(await treq.content(other)) > 100) == (200, True)
        page = await self.text("plugins/netbisect/")  # redirects to the overview

        assert "1 of 1 series measured, none missing." in page
        assert "learning" in page
        assert page.count("<svg") == 1

    async def check_documents(self) -> None:
        status = json.loads(await self.text("plugins/netbisect/overview.json"))
        root = ET.fromstring((await self.text("plugins/netbisect/feed.atom")).encode())  # noqa: S314

        assert status["format"] == "netbisect-status/1"
        assert root.tag == "{http://www.w3.org/2005/Atom}feed"
        assert "measuring" in await self.text("plugins/netbisect/badges/main.svg")
        assert "main on c2558" in await self.text("plugins/netbisect/badges/main/c2558.svg")
        for path, expected in (
            ("overview.json", "application/json"),
            ("feed.atom", "application/atom+xml"),
            ("badges/main.svg", "image/svg+xml"),
            ("metrics", "text/plain"),
        ):
            response = await self.call("GET", f"plugins/netbisect/{path}")
            [found] = response.headers.getRawHeaders("content-type")
            assert found.partition(";")[0] == expected, path
