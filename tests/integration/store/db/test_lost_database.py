"""Lost connections to PostgreSQL: no transaction is lost or repeated.

A relay between ledger and server closes the connection at a chosen message.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ledger_facts import intend, measured
from sqlalchemy import text

from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.entities import Conditions
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import Confirmed, Effect, NightlyResult
from netbisect.store.db import postgresql
from netbisect.store.db.database import (
    DatabaseError,
    DatabaseUnavailableError,
    open_database,
    retried_while_unavailable,
)
from netbisect.store.db.records import Outcome
from netbisect.store.ledger import Ledger

pytestmark = pytest.mark.xdist_group("postgresql")
_SOCKET = ".s.PGSQL.5432"
SCENARIO = "inet4-forwarding"


class Relay:
    """Relays messages between clients and the server, up to the message `cut_at`."""

    def __init__(self, server: Path, folder: Path) -> None:
        self.folder = folder
        self.messages = 0
        """Number of messages from clients."""
        self.cut_at: int | None = None
        self.delivered = False
        """Whether the server receives the message `cut_at`, so that its response is lost."""
        self.cuts = 0
        self.unavailable = False
        self._server = str(server / _SOCKET)
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _SOCKET))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.unavailable:
                client.close()
                continue
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server)
            responses = threading.Thread(target=_pump, args=(server, client))
            responses.start()
            while data := client.recv(1 << 16):
                if self._is_cut():
                    _end(client)
                    if self.delivered:
                        server.sendall(data)
                        server.shutdown(socket.SHUT_WR)
                    else:
                        _end(server)
                    break
                server.sendall(data)
            else:
                _end(server)
            responses.join()

    def _is_cut(self) -> bool:
        with self._lock:
            self.messages += 1
            if self.messages != self.cut_at:
                return False
            self.cuts += 1
            return True

    def close(self) -> None:
        self._listener.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copies until the source ends; data for a closed target is discarded."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            with contextlib.suppress(OSError):
                target.sendall(data)
    _end(target)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def relay(cluster: Any, postgresql_url: str, tmp_path: Path) -> Iterator[Relay]:
    relay = Relay(cluster.folder, tmp_path)
    yield relay
    relay.close()


@pytest.fixture
def ledger(relay: Relay, postgresql_url: str, cluster: Any) -> Iterator[Ledger]:
    engine = open_database(postgresql_url.replace(str(cluster.folder), str(relay.folder)))
    yield Ledger(engine)
    engine.dispose()


Step = Callable[[Callable[[], Any]], Any]
"""Executes a transaction; returns its result."""


def night(ledger: Ledger, name: str, step: Step) -> None:
    """All transactions from a nightly job to an alert."""
    job = NightlyJob("main", "c2558", "b", (SCENARIO,), 1)
    record = step(lambda: ledger.jobs.add(job, key=f"night {name}"))
    decision = step(lambda: intend(ledger, record, "b"))
    step(lambda: ledger.actions.submitted(decision.id, 7))
    conditions = Conditions.of("c2558", SCENARIO, {"nic": name})
    more = {"conditions": conditions.digest, "id": f"sample {name}"}
    for fact in (
        conditions,
        *measured(f"boot {name}", "c2558", "k", "b", 1.0, {SCENARIO: 1e6}, **more),
    ):
        step(partial(ledger.facts.record, fact, decision.id))
    step(lambda: ledger.actions.finish(decision.id, Outcome.OK))

    def close() -> None:
        with ledger.jobs.closing(record, NightlyResult(1)) as closing:
            job = CompareJob("main", "c2558", "a", "b", (SCENARIO,), SCENARIO, -0.1, commits=30)
            comparison = closing.ask(job, key=f"compare {name}")
            closing.open_candidate(comparison, kind=AlertKind.DROP, what="off")

    step(close)
    comparison = step(lambda: ledger.jobs.by_key(f"compare {name}"))

    def confirm() -> None:
        effect = Effect(SCENARIO, -0.1, -0.2, -0.05, 1e-6, 5, 5)
        with ledger.jobs.closing(comparison, Confirmed((effect,))) as closing:
            alert = closing.open_alert([effect], what="confirmed")
            closing.post(f"alert:{name}", Mail("s", "b"), ["a@b.invalid"], alert=alert.id)

    step(confirm)


_KEPT = ("questions", "decisions", "boots", "conditions", "samples", "alerts", "mails", "events")


def counts(url: str) -> dict[str, int]:
    engine = open_database(url)
    with engine.connect() as connection:
        found = {
            name: int(connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0)  # noqa: S608 - names from above
            for name in _KEPT
        }
        numbers = connection.scalars(text("SELECT id FROM events ORDER BY id")).all()
    engine.dispose()
    assert len(set(numbers)) == len(numbers)
    return found


@pytest.mark.long
@pytest.mark.parametrize("delivered", [False, True], ids=["message lost", "response lost"])
def test_connection_may_be_lost_at_any_message_of_a_transaction(
    relay: Relay, ledger: Ledger, postgresql_url: str, delivered: bool
) -> None:
    """The ledger has the same rows as without lost connections."""
    night(ledger, "whole", retried_while_unavailable)
    once = counts(postgresql_url)
    relay.delivered = delivered
    nights, most = 1, 0
    for at in range(1, 100):

        def step(work: Callable[[], Any], at: int = at) -> Any:
            relay.cut_at = relay.messages + at
            return retried_while_unavailable(work)

        cuts = relay.cuts
        night(ledger, f"cut at {at}", step)
        nights += 1
        most = max(most, relay.cuts - cuts)
        if relay.cuts == cuts:
            break
    assert most == 10  # every step of a night
    relay.cut_at = None
    assert counts(postgresql_url) == {name: nights * number for name, number in once.items()}


def test_ledger_waits_for_a_restarting_server(relay: Relay, ledger: Ledger, cluster: Any) -> None:
    """All connections end at once, and new ones fail for 0.3 seconds."""
    marker = ledger.events.last()
    relay.unavailable = True
    cluster.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'ledger'")
    timer = threading.Timer(0.3, setattr, (relay, "unavailable", False))
    timer.start()
    record = retried_while_unavailable(
        lambda: ledger.jobs.add(NightlyJob("main", "c", "b", (SCENARIO,), 1), key="night")
    )
    timer.join()
    assert [event.job for event in ledger.events.since(marker)[0]] == [record.id]


def test_a_commit_of_unknown_outcome_is_not_repeated(
    relay: Relay, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets an error; the service then reads the ledger again, once it is reachable."""
    monkeypatch.setattr(postgresql, "WAIT_SECONDS", 0.1)
    attempts = []

    def work() -> None:
        attempts.append(1)
        with ledger.writing() as writing:
            writing.note("noted")
            relay.unavailable = relay.delivered = True
            relay.cut_at = relay.messages + 1  # the commit

    with pytest.raises(DatabaseError, match="the outcome is unknown"):
        retried_while_unavailable(work)
    assert len(attempts) == 1
    with pytest.raises(DatabaseUnavailableError, match=r"database postgresql.* does not answer: "):
        retried_while_unavailable(ledger.events.last)
    relay.unavailable = False
    assert [event.kind for event in ledger.events.since(0)[0]] == ["noted"]
