"""A page of the running service in a browser, updated by events of Buildbot."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from accessibility import CHROMIUM
from waiting import wait_until

from netbisect.demo.play import DemoRun
from netbisect.demo.service import DemoService
from netbisect.reports.site.frame import REFRESH

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("service"),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
PAGE = "/plugins/netbisect/index.html"


def test_page_is_updated_during_measurements(tmp_path: Path) -> None:
    service = DemoService(tmp_path / "demo")
    tree = service.build(seed=3, testbeds=("e5-2650",))
    service.start()
    try:
        run = DemoRun(service, tree)
        address = f"{run.settings.web.url.rstrip('/')}{PAGE}"
        browser = subprocess.Popen(
            [
                *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"),
                *(f"--user-data-dir={tmp_path / 'profile'}", address),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: "/live.js" in _access_log(service), 60)
            run.night()
            wait_until(lambda: len(_times(service)) > 2, REFRESH / 2)
        finally:
            browser.kill()
            browser.wait()
    finally:
        service.stop()


def _access_log(service: DemoService) -> str:
    return (service.place / "http.log").read_text()


def _times(service: DemoService) -> list[str]:
    """Times of the requests for the page."""
    return re.findall(rf'\[([^]]*)\] "GET {re.escape(PAGE)} ', _access_log(service))
