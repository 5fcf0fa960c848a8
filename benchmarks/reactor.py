"""Measures how long decisions with many candidates block the reactor.

    python -m benchmarks.reactor --candidates 20000

Makes the first decisions of a new search like the master: the ledger in a thread, the computation
in the compute process. A timer of 5 ms shows the longest block of the reactor.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import click
from twisted.internet import reactor, task

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import BisectJob, Candidate
from netbisect.bisect.model.results import Trial
from netbisect.demo.play import DemoRun
from netbisect.demo.service import DemoService
from netbisect.steps.scheduler.followups import Followups
from netbisect.steps.service import compute
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.numeric import plan
from netbisect.store.db.records import ActionStage, JobRecord, Outcome
from netbisect.store.ledger import Ledger

_PERIOD = 0.005


def search(candidates: int) -> BisectJob:
    """A search with many candidates."""
    return BisectJob(
        branch="main",
        testbed="c2558",
        good="0" * 40,
        candidates=tuple(Candidate(f"{number:040x}") for number in range(1, candidates + 1)),
        scenarios=("inet4-forwarding",),
        lead="inet4-forwarding",
        effect=-0.1,
        noise=Noise(boot=0.009, image=0.01),
    )


def decide(ledger: Ledger, followups: Followups, record: JobRecord) -> None:
    """Makes a decision like the scheduler: evidence, next boot and ledger row."""
    evidence = followups.kernels.evidence(ledger, record)
    move = plan.next_move(record.job, evidence, ledger.costs.prices("c2558"))
    assert isinstance(move, Trial)
    decision = ledger.actions.intend(
        record.id,
        ActionStage.KERNEL,
        move.revision,
        "kernel-amd64",
        testbed="c2558",
        config="GENERIC-NODEBUG",
        arch="amd64",
        why=move.why,
        posterior=move.posterior,
    )
    ledger.actions.finish(decision.id, Outcome.CANCELLED, "benchmark")


class DelayMeter:
    """Measures the longest delay of a 5 ms timer."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = time.perf_counter()
        task.LoopingCall(self._call).start(_PERIOD)

    def _call(self) -> None:
        now = time.perf_counter()
        self.longest = max(self.longest, now - self._last - _PERIOD)
        self._last = now


async def measure(folder: Path, candidates: int, rounds: int) -> dict[str, object]:
    """Makes decisions; returns durations in seconds."""
    service = DemoService(folder / "service")
    run = DemoRun(service, service.build())
    process = compute.use_compute_process()
    store = database_thread(run.settings)
    followups = Followups(run.settings, run.lab)
    await store.do(lambda ledger: ledger.jobs.add(search(candidates), key="search"))
    await task.deferLater(reactor, 0.1)
    delays, took = DelayMeter(), []
    for _ in range(rounds):
        begun = time.perf_counter()
        record = (await store.do(lambda ledger: ledger.jobs.all_open()))[0]
        await store.do(lambda ledger, record=record: decide(ledger, followups, record))
        took.append(time.perf_counter() - begun)
    process.close()
    return {
        "candidates": candidates,
        "decisions": rounds,
        "longest_hold_seconds": round(delays.longest, 4),
        "longest_decision_seconds": round(max(took), 3),
    }


@click.command(epilog="Example: python -m benchmarks.reactor --candidates 20000")
@click.option("--candidates", default=20_000, show_default=True, help="Commits of the search.")
@click.option("--rounds", default=5, show_default=True, help="Decisions.")
def main(candidates: int, rounds: int) -> None:
    """Measures how long decisions block the reactor."""

    async def run(reactor: object) -> None:
        del reactor
        with tempfile.TemporaryDirectory() as folder:
            click.echo(json.dumps(await measure(Path(folder), candidates, rounds)))

    task.react(run)


if __name__ == "__main__":
    main()
