"""Time of queries of a large ledger.

    python -m benchmarks.ledger
    python -m benchmarks.ledger --database postgresql+psycopg://user@host/name

Without --database the ledger is a temporary SQLite file. A given database must be empty, or filled
by an earlier call. The default size is 1.6 million samples: 12 testbeds with 25 scenarios, 1,095
nights of 5 boots. The first call of each action is reported separately from the median of three
more.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks.site.ledger import BRANCH, DAY, FIRST, Plan, bed, fill, night, scenario
from netbisect.steps.queries import badges
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.service.settings import MailSettings, Settings
from netbisect.store.ledger import Ledger, open_ledger

_TIMES = 4


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Seconds of the first call, and median of later calls."""
    seconds: list[float] = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        work()
        seconds.append(round(time.perf_counter() - began, 4))
    return {"first_seconds": seconds[0], "seconds": statistics.median(seconds[1:])}


def play(ledger: Ledger, plan: Plan) -> dict[str, dict[str, float]]:
    """Measures all actions; returns results by name."""
    settings = Settings(branches=(BRANCH,), mail=MailSettings(("a@b.invalid",), "c@d.invalid"))
    queries = DocumentQueries.of(ledger, settings)
    # Numbers of new nights, which an earlier call must not have used.
    numbers = iter(range(plan.nights + ledger.events.last(), 1 << 40))
    actions: dict[str, Callable[[], object]] = {
        "a night of all testbeds": lambda: night(ledger, plan, next(numbers), plan.testbeds),
        "levels of a series": lambda: ledger.series.with_baseline(bed(1), scenario(1), BRANCH),
        "history of a series": lambda: ledger.series.histories(bed(1), scenario(1)),
        "overview": queries.status,
        "feed of alerts": queries.atom,
        "badges": lambda: badges.conditions(ledger, settings.branches),
    }
    return {name: measured(work) for name, work in actions.items()}


@click.command(help=__doc__)
@click.option("--database", help="SQLAlchemy address.")
@click.option("--nights", type=click.IntRange(20), default=1095, show_default=True)
def main(database: str | None, nights: int) -> None:
    """Measure a large ledger."""
    plan = Plan(nights=nights)
    with tempfile.TemporaryDirectory(prefix="netbisect-ledger-") as folder:
        url = database or f"sqlite:///{Path(folder, 'ledger.sqlite')}"
        ledger = open_ledger(url)
        if ledger.commits.newest(BRANCH) is None:
            fill(url, plan).engine.dispose()
        ledger.clock = lambda: FIRST + (nights + 0.5) * DAY
        found: dict[str, Any] = play(ledger, plan)
        ledger.engine.dispose()
    click.echo(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
