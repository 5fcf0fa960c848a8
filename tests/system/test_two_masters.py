"""Two masters of one service; one is killed, or their router.

Buildbot's messages between masters need the router crossbar, which `make crossbar` installs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from waiting import wait_until

from netbisect.demo.lab import setup
from netbisect.demo.lab.testbeds import TESTBEDS
from netbisect.demo.play import DemoRun
from netbisect.demo.service import DemoService
from netbisect.demo.tree.story import story
from netbisect.steps.service import control
from netbisect.steps.service.settings import load_settings

_CROSSBAR = shutil.which(f"{sys.prefix}/crossbar/bin/crossbar") or shutil.which("crossbar")
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("service"),
    pytest.mark.skipif(_CROSSBAR is None, reason="crossbar is not installed"),
]
LIMIT = 400.0
_EXPIRES = 700
"""Seconds after which Buildbot regards a silent master as dead, with a margin."""
_ALL = {"call": True, "register": True, "publish": True, "subscribe": True}


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def router(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Address and process of a router that allows all local clients everything."""
    with setup.free_ports(1) as (port,):
        pass
    roles = [{"name": "anonymous", "permissions": [{"uri": "", "match": "prefix", "allow": _ALL}]}]
    endpoint = {"type": "tcp", "port": port, "interface": "127.0.0.1"}
    worker = {
        "type": "router",
        "realms": [{"name": "buildbot", "roles": roles}],
        "transports": [{"type": "websocket", "endpoint": endpoint}],
    }
    folder = tmp_path / "router"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"version": 2, "workers": [worker]}))
    with (tmp_path / "router.log").open("wb") as log:
        process = subprocess.Popen(
            [str(_CROSSBAR), "start", "--cbdir", folder], stdout=log, stderr=log
        )
    wait_until(lambda: process.poll() is not None or listens(port), LIMIT)
    assert process.poll() is None, (tmp_path / "router.log").read_text()
    yield f"ws://127.0.0.1:{port}/ws", process
    process.terminate()
    process.wait()


_PROXY = """
import asyncio, sys
port, *masters = map(int, sys.argv[1:])

async def pump(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    except OSError:
        pass
    writer.close()

async def serve(reader, writer):
    for master in masters:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", master)
        except OSError:
            continue
        await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))
        return
    writer.close()

async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
        print("ready", flush=True)
        await server.serve_forever()

asyncio.run(main())
"""
"""One address for workers, forwarded to the first master that accepts connections."""


@dataclass
class Pair:
    """Two masters with one ledger."""

    play: DemoRun
    buildbots: Engine
    folders: tuple[Path, Path]
    router: subprocess.Popen[bytes]

    def boots(self, night: int) -> int:
        events = self.play.ledger.events.since(0)[0]
        return sum(event.kind == "boot" and event.job == night for event in events)

    def kill_in(self, night: int, number: int) -> None:
        """Starts a night, and kills a master after a boot."""
        self.play.tree.land(night)
        self.play.begin_night()
        wait_until(lambda: self.boots(night), LIMIT)
        master = control.master_pid(self.folders[number])
        assert master is not None
        os.kill(master, signal.SIGKILL)

    def check_night(self, night: int) -> None:
        """Each decision succeeds with one buildset, and the night is complete."""
        wait_until(lambda: not self.play.ledger.jobs.all_open(), LIMIT, every=0.5)
        decisions = self.play.ledger.actions.of_job(night)
        assert [one.outcome.value for one in decisions if one.outcome] == ["ok"] * len(decisions)
        names = Counter(name for (name,) in self.rows("SELECT external_idstring FROM buildsets"))
        assert {*names.values()} == {1}
        assert {one.external_id for one in decisions} <= names.keys()
        assert self.boots(night) >= self.play.settings.night.boots

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.buildbots.begin() as connection:
            return [tuple(row) for row in connection.execute(text(query))]


@pytest.fixture
def pair(tmp_path: Path, cluster: Any, postgresql_url: str, router: Any) -> Iterator[Pair]:
    cluster.do("CREATE DATABASE buildbots TEMPLATE template0")
    service = DemoService(tmp_path / "one")
    testbed = replace(TESTBEDS["c2558"], scenarios=("inet4-forwarding", "inet6-forwarding"))
    tree = service.build(testbeds=[testbed], commits=story(culprit=False))
    first, second = service.place / control.SETTINGS, tmp_path / "two" / control.SETTINGS
    second.parent.mkdir()
    for name in ("workers.password", "mail.password"):
        shutil.copy(service.place / name, second.parent)
    before = first.read_text()
    settings = load_settings(first)
    shared = (
        f'\n[masters]\ndatabase = "{cluster.url("buildbots")}"\nrouter = "{router[0]}"\n',
        f'database = "{postgresql_url}"\n',
    )
    first.write_text(f"{shared[1]}{before}{shared[0]}")
    with setup.free_ports(3) as (web, port, front):
        pass
    before = before.replace('lab = "lab/lab.toml"', f'lab = "{settings.lab}"')
    before = before.replace(str(settings.web.port), str(web))
    before = before.replace(f"port = {settings.workers.port}", f"port = {port}")
    second.write_text(f'state = "{service.place}"\n{shared[1]}{before}{shared[0]}')
    play = DemoRun(service, tree)
    buildbots = create_engine(cluster.url("buildbots"))
    try:
        service.start_lab()
        for folder in (service.place, second.parent):
            control.start(folder)
        ports = [str(one) for one in (front, play.settings.workers.port, port)]
        service.run("proxy", [sys.executable, "-c", _PROXY, *ports])
        for name, folder in service._create_workers(play.lab, front).items():
            service.start_worker(name, folder)
        yield Pair(play, buildbots, (service.place, second.parent), router[1])
    finally:
        play.ledger.engine.dispose()
        for folder in (service.place, second.parent):
            control.stop(folder)
        service.stop()
        buildbots.dispose()
        cluster.do("DROP DATABASE buildbots WITH (FORCE)")


def test_each_master_continues_after_a_kill_of_the_other(pair: Pair) -> None:
    """The killed trial is repeated, no buildset is submitted twice, and the nights are complete.

    In the second night the workers move to the first master, which runs the builds of the restarted
    leader. Without a router both masters exit, for their supervisors, and do not start.
    """
    pair.kill_in(1, 0)
    # Instead of waiting ten minutes until Buildbot regards the first master as dead.
    with pair.buildbots.begin() as connection:
        late = "UPDATE masters SET last_active = last_active - :late WHERE name LIKE '%/one'"
        connection.execute(text(late), {"late": _EXPIRES})
        # Buildbot keeps these rows; in the second night they would look like moved workers.
        connection.execute(text("DELETE FROM connected_workers"))
    pair.check_night(1)
    masters = {row[0] for row in pair.rows("SELECT masterid FROM builds WHERE results = 0")}
    assert len(masters) == 2, "both masters ran builds"
    wait_until(lambda: not pair.rows("SELECT id FROM builds WHERE complete_at IS NULL"), LIMIT)

    control.start(pair.folders[0])
    pair.kill_in(2, 1)
    moved = "SELECT 1 FROM connected_workers JOIN masters ON masterid = masters.id"
    moved += " JOIN workers ON workerid = workers.id WHERE masters.name LIKE '%/one'"
    moved += " AND workers.name NOT LIKE '%Janitor'"
    wait_until(lambda: len(pair.rows(moved)) == 2, LIMIT)
    control.start(pair.folders[1])
    pair.check_night(2)

    pair.router.terminate()
    for folder in pair.folders:
        wait_until(lambda folder=folder: control.master_pid(folder) is None, 60)
        assert "the router of the masters was lost" in (folder / "twistd.log").read_text()
        with pytest.raises(control.ServiceError, match=r"ws://.* does not answer: Connection ref"):
            control.start(folder)
