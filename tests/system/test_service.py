"""The whole service: commits land, the lab measures, and a mail names the culprit."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from accessibility import CHROMIUM
from buildbot.process.results import SUCCESS
from service_fixtures import logged_errors
from waiting import wait_until

from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.results import Culprit, NightlyResult
from netbisect.demo.lab.testbeds import TESTBEDS
from netbisect.demo.mailbox import read
from netbisect.demo.play import DemoRun
from netbisect.demo.service import DemoService
from netbisect.demo.tree.story import CULPRIT_AT, story
from netbisect.reports.site.frame import REFRESH
from netbisect.steps.requests import tokens
from netbisect.steps.service import control
from netbisect.steps.service.rights import parse_rights
from netbisect.store.db.records import ActionStage, Alert, LedgerEvent

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("service")]
LIMIT = 400.0
MOST_MIB = 150
SCENARIOS = ("inet4-forwarding", "inet6-forwarding")
"""Two series that the culprit makes slower."""
_INDEX = "plugins/netbisect/index.html"
_NUMERIC = re.compile(r"numpy|scipy|matplotlib|openblas")
_SET_BY_PYTHON = ("LC_CTYPE", "COLUMNS", "LINES", "PYTEST_CURRENT_TEST")
"""Variables that Python, its readline module and pytest set."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoService]:
    """A service in an environment that has only PATH and HOME."""
    service = DemoService(tmp_path_factory.mktemp("of") / "service")
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - {"PATH", "HOME"}:
            patch.delenv(name)
        with LeakCheck(service.place):
            yield service
            service.stop()
    assert control.master_pid(service.place) is None
    assert logged_errors(service.place) == []


@pytest.fixture(scope="module")
def play(service: DemoService, tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """The running service after a night without a change, in which a browser shows a page."""
    play = start(service)
    play.tree.land(CULPRIT_AT - 5)
    with browser(play, tmp_path_factory.mktemp("browser")):
        play.begin_night()
        wait_for(play)
    return play


class LeakCheck:
    """Checks during a run that no secret is on a command line or in another file."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._lines: set[bytes] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None:
            self._check()

    def _look(self) -> None:
        while not self._ended.wait(0.3):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    self._lines.add(path.read_bytes())

    def _check(self) -> None:
        own = [*self.place.glob("*.password"), *self.place.glob("*.token")]
        secrets = {path.read_text().strip().encode()[-40:] for path in own}
        assert len(secrets) == 3
        if Path("/proc/self/cmdline").exists():
            assert any(b"buildbot_worker" in line for line in self._lines)
        assert [line for line in self._lines if any(one in line for one in secrets)] == []
        known = {*own, *self.place.glob("workers/*/buildbot.tac")}
        files = [path for path in self.place.rglob("*") if path.is_file() and path not in known]
        assert {"twistd.log", "http.log", "netbisect.sqlite", "state.sqlite"} <= {
            path.name for path in files
        }
        # SQLite removes its -wal and -shm files when the last process has closed the database.
        modes, leaking = set(), []
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                if ".sqlite" in path.name:
                    modes.add(stat.S_IMODE(path.stat().st_mode))
                content = path.read_bytes()
                leaking += [path for one in secrets if one in content]
        assert modes == {0o600}
        assert leaking == []


def start(service: DemoService) -> DemoRun:
    testbed = replace(TESTBEDS["c2558"], scenarios=SCENARIOS)
    tree = service.build(commits=story()[: CULPRIT_AT + 7], seed=3, testbeds=[testbed])
    add_builder(service.place / "lab" / "lab.toml")
    service.start()
    play = DemoRun(service, tree)
    use_token(play)
    return play


def use_token(play: DemoRun) -> None:
    """Calls the API with a token."""
    token = tokens.create(play.ledger, "ann", parse_rights(["read"]), by="root", days=1)[1]
    (play.service.place / "ann.token").write_text(token)
    address = f"{play.settings.web.url}plugins/netbisect/api/v1/caller"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=300) as response:
        assert json.loads(response.read())["who"] == "ann"


def add_builder(lab: Path) -> None:
    """Adds a second builder, so that kernels are prefetched."""
    before, mark, rest = lab.read_text().partition("[[builders]]")
    first, _, _ = rest.partition("[[")
    another = first.replace('"amd64"', '"amd64-2"', 1).replace('"builder"', '"another"')
    lab.write_text(before + mark + first + mark + another + rest.removeprefix(first))


def wait_for(play: DemoRun, wanted: Callable[[LedgerEvent], bool] | None = None) -> None:
    """Waits for an event, or until all jobs are closed and all mails are sent."""

    def is_over() -> bool:
        if wanted is None:
            return not play.ledger.jobs.all_open() and not play.ledger.mails.waiting()
        events, play.marker = play.ledger.events.since(play.marker)
        return any(map(wanted, events))

    wait_until(is_over, LIMIT, every=0.4)


@contextlib.contextmanager
def browser(play: DemoRun, profile: Path) -> Iterator[None]:
    """A page in a browser that is open until its last update, if Chromium is installed."""
    if CHROMIUM is None:
        yield
        return
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}")
    with subprocess.Popen(
        [CHROMIUM, *options, f"{play.settings.web.url}{_INDEX}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: requests_of(play, "plugins/netbisect/live.js"), LIMIT)
            yield
            wait_until(lambda: requests_of(play, _INDEX) > 2, REFRESH / 2)
        finally:
            process.kill()


def requests_of(play: DemoRun, path: str) -> int:
    return (play.service.place / "http.log").read_text().count(f'"GET /{path} ')


def during(play: DemoRun, kind: type, stage: str) -> Callable[[LedgerEvent], bool]:
    """A condition: a buildset of this stage was submitted for a job of this kind."""

    def happened(event: LedgerEvent) -> bool:
        if event.kind != "submitted" or event.job is None:
            return False
        decision = play.ledger.actions.get(event.data["decision"])
        return (
            isinstance(play.ledger.jobs.get(event.job).job, kind) and decision.stage.value == stage
        )

    return happened


def environment_of(process: int) -> set[str]:
    """Names of the environment variables of a process, if there is /proc."""
    path = Path(f"/proc/{process}/environ")
    lines = path.read_bytes().decode().split("\0") if path.exists() else []
    return {line.partition("=")[0] for line in lines if line}


def kill(service: DemoService) -> None:
    """Kills the master."""
    master = control.master_pid(service.place)
    assert master is not None
    assert environment_of(master) <= {"PATH", "HOME", *service.environment, *_SET_BY_PYTHON}
    os.kill(master, signal.SIGKILL)
    wait_until(lambda: control.master_pid(service.place) is None, LIMIT)


def get(play: DemoRun, path: str) -> str:
    with urllib.request.urlopen(f"{play.settings.web.url}{path}", timeout=300) as response:
        text: bytes = response.read()
    return text.decode()


def rest(play: DemoRun, path: str) -> Any:
    return json.loads(get(play, f"api/v2/{path}"))


def trial_runs(play: DemoRun) -> bool:
    """Whether a command of the lab runs on the testbed."""
    builds = rest(play, "builders/bench-c2558/builds?complete=false")["builds"]
    return any(
        step["name"] == "trial" and step["started_at"]
        for build in builds
        for step in rest(play, f"builds/{build['buildid']}/steps?complete=false")["steps"]
    )


def is_recovery(buildset: dict[str, Any]) -> bool:
    return bool(buildset["external_idstring"].startswith("nb:recover:"))


def check_buildsets(play: DemoRun, alert: Alert) -> None:
    """Checks that each decision has one buildset; only interrupted recoveries are repeated."""
    found = rest(play, "buildsets")["buildsets"]
    names = [one["external_idstring"] for one in found if not is_recovery(one)]
    assert len(found) == rest(play, "buildsets")["meta"]["total"]
    assert len(set(names)) == len(names)
    buildsets = {one["external_idstring"]: one for one in found}
    prefetched = {name.split(":")[5]: one for name, one in buildsets.items() if "ahead" in name}
    assert prefetched
    for job in (alert.comparison, alert.bisection):
        assert job is not None
        for decision in play.ledger.actions.of_job(job):
            assert decision.outcome is not None
            adopted = decision.buildset == prefetched.get(decision.revision, {}).get("bsid")
            assert adopted or decision.external_id in buildsets
            if decision.stage is ActionStage.KERNEL and not adopted:
                assert prefetched.get(decision.revision, {}).get("results") != SUCCESS


def check_that_the_master_loads_no_numeric_libraries(service: DemoService) -> None:
    """Checks that numeric libraries are loaded in children of the master only."""
    process = Path(f"/proc/{control.master_pid(service.place)}")
    if not process.exists():
        return
    children = ""
    for task in (process / "task").iterdir():
        for child in (task / "children").read_text().split():
            with contextlib.suppress(OSError):  # it has ended
                children += Path("/proc", child, "maps").read_text()
    assert _NUMERIC.search(children)
    assert not _NUMERIC.search((process / "maps").read_text())
    peak = re.search(r"VmHWM:\s*(\d+) kB", (process / "status").read_text())
    assert peak is not None
    assert int(peak[1]) / 1024 < MOST_MIB


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_page_is_updated_during_measurements(play: DemoRun) -> None:
    assert requests_of(play, _INDEX) > 2


def test_only_the_culprit_is_named_despite_a_killed_master(play: DemoRun) -> None:
    """The master is killed in the comparison and stopped in the bisection."""
    service = play.service
    assert isinstance(play.ledger.jobs.get(1).result, NightlyResult)
    assert play.ledger.alerts.all() == []
    assert read(service.mails) == []
    play.tree.land(len(play.tree.revisions))
    play.begin_night()

    wait_for(play, during(play, CompareJob, "trial"))
    kill(service)
    control.start(service.place, service.environment)
    wait_for(play, during(play, BisectJob, "kernel"))
    wait_for(play, during(play, BisectJob, "trial"))
    wait_until(lambda: trial_runs(play), LIMIT)
    assert control.stop(service.place)
    control.start(service.place, service.environment)
    wait_for(play)

    (planted,) = (one for one, role in play.tree.roles.items() if role == "culprit")
    (alert,) = play.ledger.alerts.all()
    assert alert.culprit == planted
    assert alert.testbed == "c2558"
    assert alert.bisection is not None
    result = play.ledger.jobs.get(alert.bisection).result
    assert isinstance(result, Culprit)
    assert min(result.effects[0].good_boots, result.effects[0].bad_boots) >= 2
    first, second = read(service.mails)
    assert "inet4" in first["Subject"]
    assert second["In-Reply-To"] == first["Message-ID"]
    assert planted[:12] in second.get_content()
    assert "e1000: Migrate igb(4) to iflib" in second.get_content()
    lines = second.get_content().expandtabs().splitlines()
    assert max(len(line) for line in lines if "://" not in line) <= 76
    page = f"plugins/netbisect/alert-{alert.id}.html"
    assert planted[:12] in get(play, page)
    assert "diff --git a/sys/dev/e1000/" in get(play, page)
    # Profiles are taken after the search.
    function = '<th scope="row"><code>igb_isc_rxd_pkt_get</code></th>'
    wait_until(lambda: function in get(play, page), LIMIT, every=1.0)
    (shown,) = json.loads(get(play, "plugins/netbisect/overview.json"))["alerts"]
    assert shown["culprit"] == planted
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(play, "plugins/netbisect/reports/..%2fnetbisect.toml")
    assert "registerRoute" in get(play, "plugins/netbisect/scripts.js")

    check_that_the_master_loads_no_numeric_libraries(service)
    check_buildsets(play, alert)
    stopped = [one for one in play.ledger.actions.of_job(alert.bisection) if one.attempt > 1]
    assert stopped, "the stop of the master cancelled no trial"
