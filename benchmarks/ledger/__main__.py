"""How long what a service does takes with a large ledger, and how many statements.

    python -m benchmarks.ledger --json
    python -m benchmarks.ledger --json --database postgresql+psycopg://user@host/name

A million samples: 20 testbeds with 10 scenarios each, 700 nights of 5 boots, and 10,000 searches
with their alerts. The database must be empty, or one that was filled by this; without --database
it is SQLite's, in a folder that goes away. Every figure is the median of three; the first look,
which finds nothing in memory, is told apart. Seconds of the processor are those of this process,
without the server's; they hardly show what else a machine has to do.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from sqlalchemy import event

from benchmarks.ledger.rows import Size, fill
from benchmarks.site.ledger import BRANCH, DAY, bed, scenario
from netbisect.bisect import plan
from netbisect.bisect.model import Boot, Conditions, Kernel, Night, NightDone, Sample, Visit
from netbisect.steps import badges
from netbisect.steps import site_material as material
from netbisect.steps.board import Board
from netbisect.steps.documents import Desk
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import MailSettings, Settings
from netbisect.steps.surroundings import OfLedger
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert, Asked, DecisionStage, Outcome
from netbisect.workers.lab import Lab, load_lab

_BUILD = {"config": "GENERIC-NODEBUG", "arch": "amd64"}

_LAB = """
[source]
repository = "/nowhere/tree.git"
[[builders]]
name = "builder"
arch = "amd64"
directory = "build"
"""
_TESTBED = """
[[testbeds]]
name = "{name}"
arch = "amd64"
kernel_config = "GENERIC-NODEBUG"
line_rate_pps = 14_880_000
scenarios = ["inet4-forwarding"]
dut = {{ address = "d", ingress = {{ interface = "a" }}, egress = {{ interface = "b" }} }}
generator = {{ address = "g", port = {{ interface = "a" }} }}
receiver = {{ address = "g", port = {{ interface = "b" }} }}
"""


class Meter:
    """Counts the statements of a ledger, and looks at the clock."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.told: dict[str, Any] = {}
        self._statements = 0
        event.listen(ledger.engine, "before_cursor_execute", self._count)

    def _count(self, *_: object) -> None:
        self._statements += 1

    def take(self, name: str, work: Callable[[], object]) -> None:
        """Does it once, which is told apart, and three times."""
        self.take_in_turn({name: work})

    def take_in_turn(self, works: Mapping[str, Callable[[], object]]) -> None:
        """Does one after the other, as often."""
        spans: defaultdict[str, list[float]] = defaultdict(list)
        used: defaultdict[str, list[float]] = defaultdict(list)
        for _ in range(4):
            for name, work in works.items():
                before, began, at_work = self._statements, time.perf_counter(), time.process_time()
                work()
                spans[name].append(round(time.perf_counter() - began, 4))
                used[name].append(round(time.process_time() - at_work, 4))
                self.told[name] = {
                    "first_seconds": spans[name][0],
                    "seconds": statistics.median(spans[name][1:] or spans[name]),
                    "processor_seconds": statistics.median(used[name][1:] or used[name]),
                    "statements": self._statements - before,
                }
                click.echo(f"{name}: {spans[name][-1]:.2f} s", err=True)


class Nights:
    """Nights of all testbeds, one after the other."""

    def __init__(self, ledger: Ledger, size: Size) -> None:
        self.ledger, self.size = ledger, size
        self.number = ledger.last_event()  # as nobody has had before
        self.asked: list[Asked] = []

    def ask(self) -> None:
        """A question for each testbed, whether there is one to be repeated, and a first order."""
        ledger, one = self.ledger, f"{self.number:040x}"
        self.number += 1
        self.asked = []
        for testbed in map(bed, range(self.size.testbeds)):
            ledger.last_night(testbed, BRANCH)
            ledger.last_repeat(testbed)
            names = tuple(map(scenario, range(self.size.scenarios)))
            night = Night(BRANCH, testbed, one, names, self.size.boots)
            self.asked.append(ledger.ask(night, key=f"night:{BRANCH}:{testbed}:{one}"))
        for asked in ledger.open_questions():
            self.order(asked)

    def order(self, asked: Asked) -> None:
        """What the conductor asks the ledger between two visits."""
        ledger, name = self.ledger, asked.question.testbed
        ledger.quarantined()
        ledger.open_decisions(asked.id)
        ledger.last_event()
        evidence = ledger.evidence(asked, **_BUILD)
        move = plan.next_move(asked.question, evidence, ledger.prices(name), {})
        assert isinstance(move, Visit)
        ledger.open_decisions()
        order = ledger.intend(
            asked.id, DecisionStage.TRIAL, move.revision, name, why=move.why, **_BUILD
        )
        ledger.submitted(order.id, 1)

    def end(self) -> None:
        """What was measured comes in, and all series are held against their past."""
        ledger = self.ledger
        for asked in self.asked:
            [order] = ledger.open_decisions(asked.id)
            _measure(ledger, asked.question, order.id)
            ledger.finish(order.id, Outcome.OK)
            with ledger.closing(asked, NightDone(1)):
                pass
            for name in asked.question.scenarios:
                ledger.levels(asked.question.testbed, name, BRANCH)


def _measure(ledger: Ledger, night: Night, decision: int) -> None:
    key, now = f"{night.testbed}-{decision}", ledger.clock()
    ledger.record(
        Kernel(night.revision, "GENERIC-NODEBUG", "amd64", key, key, "v", 1, now, 500.0), decision
    )
    ledger.record(Boot(key, night.testbed, key, night.revision, now, 170.0), decision)
    for name in night.scenarios:
        digest = Conditions.of(night.testbed, name, {"flows": "2000", "nic": "1.63"}).digest
        sample = Sample(
            id=f"{key}-{name}",
            boot=key,
            testbed=night.testbed,
            scenario=name,
            pps=1e6,
            offered_pps=14_880_000.0,
            received=(),
            offered=(),
            problems=(),
            conditions=digest,
            at=now,
            seconds=30.0,
        )
        ledger.record(sample, decision)


def play(ledger: Ledger, size: Size) -> dict[str, Any]:
    """All that is measured."""
    meter, lab = Meter(ledger), OfLedger()
    settings = Settings(branches=(BRANCH,), mail=MailSettings(("a@b.invalid",), "c@d.invalid"))

    def series() -> None:
        [trail] = ledger.trails(bed(1), scenario(1))
        material.view_of(ledger, trail, lab, [], settings.min_effect)

    meter.take("series_page", series)
    alert = ledger.open_alerts()[-1]
    meter.take("alert_page", lambda: material.alert_case(ledger, alert, lab, ledger.clock()))
    nights = Nights(ledger, size)
    meter.take_in_turn({"night_ordered": nights.ask, "night_taken_in": nights.end})
    desk = Board(settings, _lab(size))
    meter.take(
        "dashboard_after_news", lambda: (_news(ledger), desk.late(ledger), desk.look(ledger))
    )
    meter.take(
        "dashboard_after_an_alert",
        lambda: (_note(ledger, alert), desk.late(ledger), desk.look(ledger)),
    )
    meter.take("dashboard_without_news", lambda: desk.look(ledger))
    late = desk.late(ledger)[0]
    meter.take("dashboard_one_series_anew", lambda: desk.read(ledger, late))
    documents = Desk.of(ledger, settings)
    meter.take("overview", documents.status)
    meter.take("feed", documents.atom)
    meter.take("badges", lambda: badges.conditions(ledger, settings.branches))
    return meter.told


def _lab(size: Size) -> Lab:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lab.toml")
        testbeds = "".join(_TESTBED.format(name=bed(one)) for one in range(size.testbeds))
        path.write_text(_LAB + testbeds)
        return load_lab(path)


def _news(ledger: Ledger) -> None:
    with ledger.writing() as writing:
        writing.note("news")


def _note(ledger: Ledger, alert: Alert) -> None:
    ledger.change_alert(alert.id, who="somebody", what="was looked at")


@click.command()
@click.option("--database", help="SQLAlchemy address; a temporary file of SQLite if left out.")
@click.option("--searches", default=10_000, show_default=True)
@click.option("--nights", default=700, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a line for each.")
def main(database: str | None, searches: int, nights: int, *, as_json: bool) -> None:
    """Measures a large ledger."""
    size = Size(nights=nights, searches=searches)
    with tempfile.TemporaryDirectory(prefix="netbisect-ledger-") as folder:
        url = database or f"sqlite:///{Path(folder, 'ledger.sqlite')}"
        ledger = open_ledger(url)
        told: dict[str, Any] = {
            "database": ledger.engine.dialect.name,
            "processors": os.cpu_count(),
        }
        if ledger.newest(BRANCH) is None:
            began = time.perf_counter()
            fill(url, size)
            told["filled_in_seconds"] = round(time.perf_counter() - began)
        ledger.clock = lambda: size.now + DAY / 2
        told |= {"testbeds": size.testbeds, "nights": nights, "searches": searches}
        told |= play(ledger, size)
        ledger.engine.dispose()
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for name, value in told.items():
        click.echo(f"{name}: {value}")


if __name__ == "__main__":
    main()
