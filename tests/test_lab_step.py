"""One command of the lab as a Buildbot step, by Buildbot's own test mixins."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from buildbot.process.results import CANCELLED, FAILURE, RETRY, SUCCESS
from buildbot.test.reactor import TestReactorMixin
from buildbot.test.steps import ExpectShell, TestBuildStepMixin
from twisted.internet import defer, error
from twisted.python.failure import Failure
from twisted.trial import unittest

from netbisect.bisect import wire
from netbisect.bisect.model import Boot, Dud, Kernel, Reaction, Sample, Stage
from netbisect.steps.lab_step import LabStep
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import MailSettings, Settings

KERNEL = Kernel("a" * 40, "GENERIC", "amd64", "id", "key", "n8-aaaaaaaaaaaa", 1, 1.0, 2.0)
BOOT = Boot("boot", "c2558", "key", "a" * 40, 5.0, 60.0)
SAMPLE = Sample(
    "sample", "boot", "c2558", "inet4-forwarding", 950_000, 1_488_000, (), (), (), "x", 6.0, 30.0
)
DUD = Dud("dud", "b" * 40, Stage.BUILD, Reaction.SKIP, "route.c:3: error: no", 7.0, 8.0)


class Step(TestBuildStepMixin, TestReactorMixin, unittest.TestCase):
    """The step runs netbisect-lab and records what it prints."""

    timeout = 20

    def setUp(self) -> Any:
        self.setup_test_reactor()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.settings = Settings(
            branches=("main",),
            mail=MailSettings(to=("a@b",), sender="c@d"),
            lab=Path("/lab/lab.toml"),
            database=f"sqlite:///{folder.name}/netbisect.sqlite",
        )
        self.ledger = open_ledger(self.settings.database)
        return self.setup_test_build_step()

    def step(self, verb: str = "trial", **more: Any) -> ExpectShell:
        self.setup_build()
        self.setup_step(LabStep(verb, ["--testbed", "c2558"], settings=self.settings))
        command = ["netbisect-lab", "--lab", "/lab/lab.toml", verb, "--testbed", "c2558"]
        return ExpectShell(workdir="wkdir", command=command, log_environ=False, **more)

    def test_facts_are_recorded(self) -> defer.Deferred[None]:
        """Every fact line is in the ledger; other output is not mistaken for one."""
        said = f"warming up\n{wire.dumps(BOOT)}\n{wire.dumps(SAMPLE)}\n"
        self.expect_commands(self.step().stdout(said).stderr("prose {\n").exit(0))
        self.expect_outcome(SUCCESS, "up in 60 s; inet4-forwarding 0.950 Mpps")
        self.expect_property("lab_exit", 0, "netbisect-lab")
        done = self.run_step()

        def check(_: object) -> None:
            events, _ = self.ledger.events_since(0)
            assert [event.kind for event in events] == ["boot", "sample"]

        return done.addCallback(check)

    def test_a_visit_is_handed_over_in_the_workers_own_folder(self) -> defer.Deferred[None]:
        """Where all of its visits find the one socket, whatever their builder."""
        shell = self.step(env={"NETBISECT_LAB_SOCKET": "/var/worker/netbisect-lab.socket"})
        self.build.setProperty("builddir", "/var/worker/bench-c2558", "Worker")
        self.expect_commands(shell.exit(0))
        self.expect_outcome(SUCCESS, "trial done")
        return self.run_step()

    def test_a_kernel_is_built_in_a_process_of_its_own(self) -> defer.Deferred[None]:
        """It takes hours, and loads what visits do not need."""
        shell = self.step("build")
        self.build.setProperty("builddir", "/var/worker/kernel-amd64", "Worker")
        self.expect_commands(shell.exit(0))
        self.expect_outcome(SUCCESS, "build done")
        return self.run_step()

    def test_a_kernel_sets_its_key(self) -> defer.Deferred[None]:
        """What comes after knows which kernel to carry."""
        self.expect_commands(self.step("build").stdout(wire.dumps(KERNEL) + "\n").exit(0))
        self.expect_outcome(SUCCESS, "built n8-aaaaaaaaaaaa")
        self.expect_property("kernel", "key", "netbisect-lab")
        return self.run_step()

    def test_a_dud_is_a_failure_with_its_reason(self) -> defer.Deferred[None]:
        """A failure, not an exception: Buildbot would bar the worker for the latter."""
        self.expect_commands(self.step("build").stdout(wire.dumps(DUD) + "\n").exit(3))
        self.expect_outcome(FAILURE, "build: route.c:3: error: no (failure)")
        self.expect_property("lab_exit", 3, "netbisect-lab")
        done = self.run_step()

        def check(_: object) -> None:
            events, _ = self.ledger.events_since(0)
            assert [event.kind for event in events] == ["dud"]

        return done.addCallback(check)

    def test_silence_is_a_failure(self) -> defer.Deferred[None]:
        """A command that dies without a word says so by its status."""
        self.expect_commands(self.step().exit(4))
        self.expect_outcome(FAILURE, "the lab needs its owner (failure)")
        return self.run_step()

    def test_a_fact_that_cannot_be_kept_fails_the_step(self) -> defer.Deferred[None]:
        """A sample without its boot is refused, and the visit is made again."""
        self.expect_commands(self.step().stdout(wire.dumps(SAMPLE) + "\n").exit(0))
        self.expect_outcome(FAILURE, "a fact could not be recorded (failure)")
        done = self.run_step()
        return done.addCallback(lambda _: self.flushLoggedErrors())

    def test_a_lost_worker_is_tried_again_by_buildbot(self) -> defer.Deferred[None]:
        """The build is put back into the queue."""
        self.expect_commands(self.step().error(Failure(error.ConnectionLost())))
        self.expect_outcome(RETRY)
        return self.run_step()

    def test_a_cancelled_step_is_cancelled(self) -> defer.Deferred[None]:
        """And not taken for an answer of the lab."""
        shell = self.step()
        shell.interrupted = True
        self.expect_commands(shell.exit(-1))
        self.interrupt_nth_remote_command(0)
        self.expect_outcome(CANCELLED)
        self.expect_log_file("cancelled", "interrupt reason")
        return self.run_step()
