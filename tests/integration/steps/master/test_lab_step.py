"""LabStep, with Buildbot's test mixins."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from buildbot.process.results import CANCELLED, FAILURE, RETRY, SUCCESS
from buildbot.test.reactor import TestReactorMixin
from buildbot.test.steps import ExpectShell, TestBuildStepMixin
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from twisted.internet import defer, error
from twisted.python import failure
from twisted.trial import unittest

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Kernel, Sample
from netbisect.steps.master.lab_step import LabStep
from netbisect.steps.service.settings import MailSettings, Settings
from netbisect.store.db import database, postgresql
from netbisect.store.ledger import open_ledger

KERNEL = Kernel("a" * 40, "GENERIC", "amd64", "id", "key", "n8-aaaaaaaaaaaa", 1, 1.0, 2.0)
BOOT = Boot("boot", "c2558", "key", "a" * 40, 5.0, 60.0)
SAMPLE = Sample(
    "sample", "boot", "c2558", "inet4-forwarding", 950_000, 1_488_000, (), (), (), "x", 6.0, 30.0
)


class LabStepTest(TestBuildStepMixin, TestReactorMixin, unittest.TestCase):
    timeout = 600

    def setUp(self) -> Any:
        self.setup_test_reactor()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # Buildbot's test master creates a folder in the current folder, as do other processes.
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(folder.name)
        self.settings = Settings(
            branches=("main",),
            mail=MailSettings(to=("a@b",), sender="c@d"),
            lab=Path("/lab/lab.toml"),
            database=f"sqlite:///{folder.name}/netbisect.sqlite",
        )
        self.ledger = open_ledger(self.settings.database)
        return self.setup_test_build_step()

    def step(self) -> ExpectShell:
        self.setup_build()
        self.setup_step(LabStep("trial", ["--testbed", "c2558"], 60, settings=self.settings))
        command = ["netbisect-lab", "--lab", "/lab/lab.toml", "trial", "--testbed", "c2558"]
        limits = {"timeout": None, "max_time": 60, "sigterm_time": 30}
        env = {"NETBISECT_LINE_LENGTH": "4000"}
        return ExpectShell("wkdir", command, log_environ=False, env=env, **limits)

    def test_a_crash_without_output_is_a_failure(self) -> defer.Deferred[None]:
        self.expect_commands(self.step().exit(4))
        self.expect_outcome(FAILURE, "the lab needs repair (failure)")
        return self.run_step()

    def test_an_invalid_fact_fails_the_step(self) -> defer.Deferred[None]:
        """A sample without its boot is invalid."""
        self.expect_commands(self.step().stdout(serialization.dumps(SAMPLE) + "\n").exit(0))
        why = "a fact could not be recorded: sample sample of inet4-forwarding on c2558 belongs to "
        why += "boot boot, which was not recorded; its Boot must come first (failure)"
        self.expect_outcome(FAILURE, why)
        return self.run_step().addCallback(lambda _: self.flushLoggedErrors())

    def test_facts_are_recorded_after_a_long_lock_of_the_database(self) -> defer.Deferred[None]:
        """The first write gives up, as the ledger does after a minute; other output is ignored."""
        self.patch(database, "WAIT_SECONDS", 0.1)
        self.patch(postgresql, "WAIT_SECONDS", 0.1)
        other = sqlite3.connect(self.settings.database.removeprefix("sqlite:///"))
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        errors: list[str] = []

        def release(context: ExceptionContext) -> None:
            errors.append(str(context.original_exception))
            other.rollback()

        event.listen(Engine, "handle_error", release)
        self.addCleanup(event.remove, Engine, "handle_error", release)
        facts = (KERNEL, BOOT, SAMPLE)
        output = "".join(f"{line}\n" for line in ("warming up", *map(serialization.dumps, facts)))
        self.expect_commands(self.step().stdout(output).stderr("text {\n").exit(0))
        built = "built n8-aaaaaaaaaaaa; up in 60 s; inet4-forwarding 950 kpps"
        self.expect_outcome(SUCCESS, built)
        self.expect_property("kernel", "key", "netbisect-lab")
        self.expect_property("lab_exit", 0, "netbisect-lab")
        done = self.run_step()

        def check(_: object) -> None:
            assert errors == ["database is locked"]
            events, _ = self.ledger.events.since(0)
            assert [event.kind for event in events] == ["kernel", "boot", "sample"]

        return done.addCallback(check)

    def test_a_lost_worker_leads_to_a_retry(self) -> defer.Deferred[None]:
        self.expect_commands(self.step().error(failure.Failure(error.ConnectionLost())))
        self.expect_outcome(RETRY)
        return self.run_step()

    def test_an_interrupted_step_is_cancelled_and_logs_the_reason(self) -> defer.Deferred[None]:
        shell = self.step()
        shell.interrupted = True
        self.expect_commands(shell.exit(-1))
        self.interrupt_nth_remote_command(0)
        self.expect_outcome(CANCELLED)
        self.expect_log_file("cancelled", "interrupt reason")
        return self.run_step()
