"""A master in the process of the test, with a scripted lab."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from buildbot.plugins import worker
from buildbot.process.buildstep import BuildStepCancelled
from buildbot.test.util.integration import RunMasterBase
from twisted.internet import defer, reactor, task

from netbisect.bisect.model import Night
from netbisect.steps import builders as wiring
from netbisect.steps import patches
from netbisect.steps.conductor import NAME, Conductor
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import load
from netbisect.store.records import Asked, QuestionState

HERE = Path(__file__).parent
REVISION = "a" * 40

LAB = """
[source]
repository = "{folder}/tree.git"
{builders}
{testbeds}
"""
TESTBED = """
[[testbeds]]
name = "{name}"
owner = "{owner}"
group = "{group}"
arch = "amd64"
kernel_config = "GENERIC"
line_rate_pps = 1_000_000
scenarios = ["inet4-forwarding"]
dut = {{ address = "d", ingress = {{ interface = "a" }}, egress = {{ interface = "b" }} }}
generator = {{ address = "g", port = {{ interface = "a" }} }}
receiver = {{ address = "g", port = {{ interface = "b" }} }}
"""
BUILDER = """
[[builders]]
name = "{name}"
arch = "amd64"
directory = "build"
"""
SETTINGS = """
branches = ["main"]
tick = 0.2
database = "{database}"
[mail]
to = ["people@lab.invalid"]
sender = "netbisect@lab.invalid"
[workers]
command = ["{python}", "{script}"]
"""


def case(work: Callable[[Any], Any]) -> Callable[[Any], defer.Deferred[None]]:
    """A test written as a coroutine."""

    def run(self: RealMaster) -> defer.Deferred[None]:
        return defer.ensureDeferred(work(self))

    run.__doc__ = work.__doc__
    return run


class RealMaster(RunMasterBase):
    """A master with the conductor, and a worker in the same process."""

    timeout = 60
    proto = "null"
    builders: tuple[str, ...] = ("builder",)
    testbeds: tuple[str, ...] = ("c2558",)
    owner = ""
    group = ""
    database = ""

    def setUp(self) -> Any:
        patches.apply()
        # Buildbot logs a step that is stopped while it begins.
        self.addCleanup(self.flushLoggedErrors, BuildStepCancelled)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        builders = "".join(BUILDER.format(name=name) for name in self.builders)
        testbeds = "".join(
            TESTBED.format(name=name, owner=self.owner, group=self.group) for name in self.testbeds
        )
        lab = LAB.format(folder=folder.name, builders=builders, testbeds=testbeds)
        (self.folder / "lab.toml").write_text(lab)
        script = HERE / "scripted_lab.py"
        text = SETTINGS.format(python=sys.executable, script=script, database=self.database)
        (self.folder / "netbisect.toml").write_text(text)
        subprocess.run(["git", "init", "-q", "--bare", self.folder / "tree.git"], check=True)
        self.settings, self.lab = load(self.folder / "netbisect.toml")
        self.ledger = open_ledger(self.settings.database)
        self.script({})
        return super().setUp()

    def script(self, behaviours: dict[str, Any]) -> None:
        (self.folder / "script.json").write_text(json.dumps(behaviours))

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    async def start(
        self,
        more: Sequence[Any] = (),
        more_workers: Sequence[Any] = (),
        more_builders: Sequence[Any] = (),
        protocols: Mapping[str, Any] = MappingProxyType({}),
        **others: Any,
    ) -> None:
        config: dict[str, Any] = {
            **others,
            "workers": [
                *more_workers,
                *(
                    worker.LocalWorker(name, max_builds=1, missing_timeout=0)
                    for name in (*self.builders, *self.testbeds)
                ),
            ],
            "protocols": {"null": {}, **protocols},
            "builders": [*wiring.builders(self.settings, self.lab), *more_builders],
            "schedulers": [
                *more,
                Conductor(
                    name=NAME,
                    builderNames=wiring.all_builders(self.lab),
                    settings=self.settings,
                    lab=self.lab,
                ),
            ],
        }
        await self.setup_master(config, startWorker=False, basedir=str(self.folder / "master"))

    def ask(self, revision: str = REVISION, boots: int = 2, testbed: str = "c2558") -> Asked:
        night = Night("main", testbed, revision, ("inet4-forwarding",), boots)
        return self.ledger.ask(night, key=f"night:main:{testbed}:{revision}")

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await task.deferLater(reactor, 0.05)

    async def closed(self, asked: Asked) -> Asked:
        def is_closed() -> bool:
            return self.ledger.question(asked.id).state is QuestionState.CLOSED

        await self.until(is_closed)
        return self.ledger.question(asked.id)

    async def buildsets(self) -> list[dict[str, Any]]:
        found = await self.master.data.get(("buildsets",))
        return [one for one in found if not one["external_idstring"].startswith("nb:recover")]
