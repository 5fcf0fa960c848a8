"""Where a service can be hit: listeners that name its steps as they happen, and the blow.

A step is seen from within the process that makes it:

- the master: every transaction of the ledger that tells of something, before and after its
  commit; every order to Buildbot; begin and end of every step of a build; every file that is
  moved to its place.
- the simulated lab: every command that a machine, a power switch or a console is given.
- the mail server: every mail, before and after it is kept.

Which of them are hit is in a script (script.py), which all processes of a service share.
"""

from __future__ import annotations

import functools
import json
import os
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
from netbisect.demo.lab.router import Router
from netbisect.steps import afresh, post
from netbisect.steps.orders import Orders
from netbisect.store.records import Outcome
from netbisect.store.sessions import Writing
from netbisect.store.tables import EventRow, QuestionRow

_CHANCE = re.compile(r"[0-9a-f]{32,}|\d+\.\d+")
_TOLD = ("decision", "testbed", "scenario", "stage", "state", "key", "branch")
"""Of an event: what says which step it was."""


class LostConnection(exc.OperationalError):
    """As the driver tells it when its database has gone."""

    def __init__(self) -> None:
        super().__init__("COMMIT", None, sqlite3.OperationalError("the connection is lost"))


# -------------------------------------------------------------------------------- the master


def in_master(path: Path) -> None:
    """Listens to the master that this process is about to become."""
    script = Script(path)
    _transactions(script)
    _orders(script)
    _steps(script)
    _files(script)
    # Another process of the same master would have no listeners: whoever watches starts one.
    afresh.begin = lambda _: os._exit(1)  # type: ignore[assignment]
    # What is only waited for.
    afresh._TICK, afresh._LEAST_SECONDS = 0.2, 1.0
    post._UNHEARD = 2.0


def _words(connection: Any, row: EventRow) -> str:
    told = [f"{name}={row.data[name]}" for name in _TOLD if row.data.get(name)]
    kind = "no question"
    if row.question_id is not None:
        query = select(QuestionRow.kind).where(QuestionRow.id == row.question_id)
        kind = f"{connection.scalar(query)} {row.question_id}"
    return f"{kind}: {row.kind} {' '.join(told)}".strip()


def _forget(session: Session) -> None:
    session.info.pop("noted", None)
    session.info.pop("progress", None)


def _transactions(script: Script) -> None:
    @event.listens_for(EventRow, "after_insert")
    def noted(_: object, connection: Any, row: EventRow) -> None:
        session = Session.object_session(row)
        assert session is not None
        session.info.setdefault("noted", []).append(_words(connection, row))
        # A further try of the same order is none.
        if row.kind == "finished" and row.data.get("outcome") != Outcome.RETRY.value:
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

    assert Writing  # the transactions that tell of something are those that note it


def _orders(script: Script) -> None:
    give = Orders.give

    @functools.wraps(give)
    async def given(self: Orders, name: str, *more: Any, **others: Any) -> int:
        script.point(f"before the order {_CHANCE.sub('N', name)}")
        number = await give(self, name, *more, **others)
        script.point(f"after the order {_CHANCE.sub('N', name)}")
        return number

    Orders.give = given  # type: ignore[method-assign]  # no hook of the product's own


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

    def heard(name: str, arguments: tuple[Any, ...]) -> None:
        if name != "os.rename":
            return
        target = str(arguments[1])
        if target.startswith(folder) and "/tree.git/" not in target:
            script.point(
                f"{script.phase()}: before a file becomes {general(target.removeprefix(folder))}"
            )

    sys.addaudithook(heard)


# --------------------------------------------------------------------------------- the lab


def in_lab(path: Path) -> None:
    """Listens to the simulated lab that this process is about to become."""
    script = Script(path)
    bound = server._bound

    def listening(
        table: Mapping[str, Callable[..., Any]], machine: Any
    ) -> dict[str, server.Command]:
        commands = bound(table, machine)
        return {name: _heard(script, machine.name, name, one) for name, one in commands.items()}

    server._bound = listening
    for name in ("_cycle", "_attach"):
        setattr(server.Lab, name, _switched(script, getattr(server.Lab, name)))
    come_up = Router._come_up

    async def came_up(self: Router, image: Any) -> None:
        boot = {
            "router": self.name,
            "order": self.environment.get("netbisect.order", ""),
            "folder": self.folder,
        }
        with script.truth.open("a") as truth:
            truth.write(json.dumps(boot) + "\n")
        await come_up(self, image)

    Router._come_up = came_up  # type: ignore[method-assign]


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
    async def run(self: server.Lab, shell: Any, arguments: list[str]) -> None:
        script.point(
            f"{script.phase()}: before the switch or console does {command.__name__.strip('_')}"
        )
        await command(self, shell, arguments)
        script.point(f"{script.phase()}: after {command.__name__.strip('_')}")

    return run


# ----------------------------------------------------------------------------- the mail server


def in_mailbox(path: Path) -> None:
    """Listens to the mail server that this process is about to become."""
    script = Script(path)
    take = mailbox.Keep.handle_DATA

    async def taken(self: mailbox.Keep, server: Any, session: Any, envelope: Any) -> str:
        subject = re.search(rb"(?mi)^Subject: (.*)", envelope.original_content or b"")
        what = general(subject[1].decode(errors="replace")) if subject else ""
        script.point(f"before the mail server keeps {what}")
        said = await take(self, server, session, envelope)
        script.point(f"after the mail server has kept {what}")
        return said

    mailbox.Keep.handle_DATA = taken  # type: ignore[method-assign]
