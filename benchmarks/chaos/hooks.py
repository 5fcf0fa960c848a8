"""Hooks that report the steps of a service and inject faults.

Steps are observed within the process that performs them:

- the master: every transaction of the ledger that records an event, before and after its commit;
  every buildset; start and end of every step of a build; every renamed file.
- the simulated lab: every command of a machine, the power switch or a console.
- the mail server: every mail, before and after it is stored.

The plan of faults (script.py) is shared by all processes of a service.
"""

from __future__ import annotations

import functools
import json
import re
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from buildbot.process.buildstep import BuildStep
from sqlalchemy import event, exc, select
from sqlalchemy.orm import Session

from benchmarks.chaos.script import Script, general
from netbisect.demo import mailbox
from netbisect.demo.lab import server
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.steps.scheduler.buildsets import Buildsets
from netbisect.store.db.records import JobRecord, LedgerEvent, Outcome

_RANDOM = re.compile(r"[0-9a-f]{32,}|\d+\.\d+")
_ATTRIBUTES = ("decision", "testbed", "scenario", "stage", "state", "key", "branch")
"""Attributes of an event that identify the step."""


class LostConnection(exc.OperationalError):
    """The driver's error for a lost database."""

    def __init__(self) -> None:
        super().__init__("COMMIT", None, sqlite3.OperationalError("the connection is lost"))


def in_master(path: Path) -> None:
    """Installs hooks in the master of this process."""
    script = Script(path)
    _transactions(script)
    _orders(script)
    _steps(script)
    _files(script)


def _words(connection: Any, row: LedgerEvent) -> str:
    attributes = [f"{name}={row.data[name]}" for name in _ATTRIBUTES if row.data.get(name)]
    kind = "no job"
    if row.job is not None:
        query = select(JobRecord.kind).where(JobRecord.id == row.job)
        kind = f"{connection.scalar(query)} {row.job}"
    return f"{kind}: {row.kind} {' '.join(attributes)}".strip()


def _forget(session: Session) -> None:
    session.info.pop("noted", None)
    session.info.pop("progress", None)


def _transactions(script: Script) -> None:
    @event.listens_for(LedgerEvent, "after_insert")
    def noted(_: object, connection: Any, row: LedgerEvent) -> None:
        session = Session.object_session(row)
        assert session is not None
        session.info.setdefault("noted", []).append(_words(connection, row))
        # A retry of the same decision is no progress.
        if row.kind == "finished" and row.data.get("outcome") != Outcome.RETRY:
            session.info["progress"] = (row.data["stage"], row.data["outcome"])

    def hit(session: Session, when: str) -> None:
        notes = session.info.get("noted")
        if not notes:
            return
        what = " + ".join(dict.fromkeys(notes))
        if when == "after" and session.info.get("progress"):
            script.progress(*session.info["progress"])
        if script.point(f"{when} commit of {what}"):
            raise LostConnection

    @event.listens_for(Session, "before_commit")
    def before(session: Session) -> None:
        hit(session, "before")

    @event.listens_for(Session, "after_commit")
    def after(session: Session) -> None:
        try:
            hit(session, "after")
        finally:
            _forget(session)

    @event.listens_for(Session, "after_soft_rollback")
    def undone(session: Session, _: object) -> None:
        _forget(session)


def _orders(script: Script) -> None:
    submit = Buildsets.submit

    @functools.wraps(submit)
    async def given(self: Buildsets, name: str, *more: Any, **others: Any) -> int:
        script.point(f"before the order {_RANDOM.sub('N', name)}")
        number = await submit(self, name, *more, **others)
        script.point(f"after the order {_RANDOM.sub('N', name)}")
        return number

    Buildsets.submit = given  # type: ignore[method-assign]  # the product has no hook for it


def _steps(script: Script) -> None:
    start = BuildStep.startStep

    @functools.wraps(start)
    async def started(self: BuildStep, remote: Any) -> Any:
        where = f"{self.name} of {self.build.builder.name}, decision " + str(
            self.getProperty("decision", "none")
        )
        script.point(f"before step {where}")
        result = await start(self, remote)
        script.point(f"after step {where}")
        return result

    BuildStep.startStep = started


def _files(script: Script) -> None:
    folder = str(script.place)

    def audit(name: str, arguments: tuple[Any, ...]) -> None:
        if name != "os.rename":
            return
        target = str(arguments[1])
        if target.startswith(folder) and "/tree.git/" not in target:
            script.point(
                f"{script.phase()}: before a file becomes {general(target.removeprefix(folder))}"
            )

    sys.addaudithook(audit)


def in_lab(path: Path) -> None:
    """Installs hooks in the simulated lab of this process."""
    script = Script(path)
    bound = server._bound

    def listening(
        table: Mapping[str, Callable[..., Any]], machine: Any
    ) -> dict[str, server.Command]:
        commands = bound(table, machine)
        return {name: _heard(script, machine.name, name, one) for name, one in commands.items()}

    server._bound = listening
    for name in ("_cycle", "_attach"):
        setattr(server.LabSimulator, name, _switched(script, getattr(server.LabSimulator, name)))
    come_up = SimulatedRouter._come_up

    async def came_up(self: SimulatedRouter, image: Any) -> None:
        boot = {
            "router": self.name,
            "order": self.environment.get("netbisect.order", ""),
            "folder": self.folder,
        }
        with script.truth.open("a") as truth:
            truth.write(json.dumps(boot) + "\n")
        await come_up(self, image)

    SimulatedRouter._come_up = came_up  # type: ignore[method-assign]


def _heard(
    script: Script, machine: str, name: str, command: server.Command
) -> Callable[..., Awaitable[int | None]]:
    async def run(shell: Any, arguments: list[str]) -> int | None:
        words = general(" ".join([name, *arguments]))[:60]
        script.point(f"{script.phase()}: before {machine} runs {words}")
        done = command(shell, arguments)
        status = await done if isinstance(done, Awaitable) else done
        script.point(f"{script.phase()}: after {machine} runs {words}")
        return status

    return run


def _switched(script: Script, command: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    async def run(self: server.LabSimulator, shell: Any, arguments: list[str]) -> None:
        script.point(
            f"{script.phase()}: before the switch or console does {command.__name__.strip('_')}"
        )
        await command(self, shell, arguments)
        script.point(f"{script.phase()}: after {command.__name__.strip('_')}")

    return run


def in_mailbox(path: Path) -> None:
    """Installs hooks in the mail server of this process."""
    script = Script(path)
    take = mailbox.MailKeeper.handle_DATA

    async def taken(self: mailbox.MailKeeper, server: Any, session: Any, envelope: Any) -> str:
        subject = re.search(rb"(?mi)^Subject: (.*)", envelope.original_content or b"")
        what = general(subject[1].decode(errors="replace")) if subject else ""
        script.point(f"before the mail server keeps {what}")
        response = await take(self, server, session, envelope)
        script.point(f"after the mail server has kept {what}")
        return response

    mailbox.MailKeeper.handle_DATA = taken  # type: ignore[method-assign]
