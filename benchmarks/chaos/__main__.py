"""`python -m benchmarks.chaos`: injects faults at every step of a night, a retest and a search.

A run without faults records all steps and the results. Then each kind of fault is injected at each
kind of step, several per run, and the service is restarted after each. The kind of a step is its
text without numbers and names. Every run must have the same results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from benchmarks.chaos import audit, script
from benchmarks.chaos.script import Plan
from benchmarks.chaos.stage import Stage
from benchmarks.chaos.tally import Run, Tally
from netbisect.demo.service import DemoError

_QUIET, _NIGHT, _PROFILING = "quiet", "night", "profiling"
_LATER = ("comparison", "bisection", _PROFILING)
"""Phases after the slow commit at which runs also start."""
STORIES = (_QUIET, _NIGHT, *_LATER)
"""A first night; the night after the slow commit; and this night from each of its phases on."""
_GROUPS = (
    (script.MASTER, script.WORKER, script.TRIAL, script.DATABASE, script.DISK),
    (script.LAB,),
)
"""Faults that are combined in a run, and the one that may cause quarantines."""
_MOST = 100
"""Hits after which the next run starts from the beginning."""
_IDLE_RUNS = 2
"""Runs without a hit after which a story is complete."""
SHORT = (
    (script.MASTER, "before commit of night 1: decided"),
    (script.DATABASE, "after commit of night 1: submitted"),
    (script.TRIAL, "before c2558-dut runs sysctl"),
    (script.WORKER, "after commit of night 1: boot"),
    (script.DISK, "before step keep logs"),
    (script.MASTER, "after the order nb:recover"),
)


def perform(stage: Stage, story: str, plan: Plan, expected: audit.Answer | None) -> list[str]:
    """Completes a run; returns violations."""
    stage.start(plan)
    wrong = []
    try:
        if story not in _LATER:
            stage.run.begin_night()
        stage.watch()
        wrong = list(audit.faults(stage, expected))
    except DemoError as error:
        wrong = [str(error)]
    stage.stop()
    return wrong + [f"still running: {one}" for one in stage.strays()]


def prepare(stage: Stage, tally: Tally) -> None:
    """Runs all stories without faults, and saves the service at the start of each story.

    Raises:
        DemoError: there are violations without faults.
    """

    def play(story: str) -> None:
        wrong = perform(stage, story, Plan(()), tally.answers.get(story))
        if wrong:
            raise DemoError(f"{story}, without faults: {wrong[0]}")
        tally.answers[story] = audit.answer(stage)
        tally.see(story, stage.journal.seen)

    stage.build()
    stage.save(_QUIET)
    play(_QUIET)
    stage.run.tree.land(len(stage.run.tree.revisions))
    stage.save(_NIGHT)
    play(_NIGHT)
    stage.restore(_NIGHT)
    stage.start(Plan(()))
    stage.run.begin_night()
    for phase in _LATER:
        stage.watch(until=phase)
        stage.stop()
        stage.save(phase)
        stage.start(Plan(()))
    stage.stop()
    for phase in _LATER:
        tally.answers[phase] = tally.answers[_NIGHT]
        stage.restore(phase)
        play(phase)


def _next(tally: Tally) -> tuple[tuple[str, ...], str] | None:
    """The group of faults and the story with the most new hits per second, or None."""

    def new_hits_per_second(choice: tuple[tuple[str, ...], str]) -> float:
        group, story = choice
        runs = [run for run in tally.runs if run.story == story and run.group == [*group]]
        left = tally.left_in(story, group)
        if not left or (len(runs) >= _IDLE_RUNS and not any(run.new for run in runs[-_IDLE_RUNS:])):
            return 0.0
        return min(left, runs[-1].new or 0.5) / runs[-1].seconds if runs else 1e9

    best = max(itertools.product(_GROUPS, STORIES), key=new_hits_per_second)
    return best if new_hits_per_second(best) else None


def every_kind(stage: Stage, tally: Tally) -> None:
    """Runs all stories with all faults."""
    while choice := _next(tally):
        group, story = choice
        began = time.monotonic()
        stage.restore(story)
        plan = Plan(group, spared=tuple(sorted(tally.spared())), most=_MOST)
        wrong = perform(stage, story, plan, tally.answers[story])
        tally.see(story, stage.journal.seen)
        seconds = round(time.monotonic() - began, 1)
        run = Run(story, [*group], [*stage.hits()], seconds, stage.restarts, wrong)
        tally.add(run)
        left = tally.left_in(story, group)
        print(
            f"{story}, {', '.join(group)}: {len(run.hits)} hits ({run.new} new), {seconds:.0f} s, "
            f"{run.restarts} restarts, {left} left; {wrong or 'no violations'}",
            *(f"  {fault}: {step}" for step, fault in run.hits if wrong),
            sep="\n",
            file=sys.stderr,
            flush=True,
        )


def short(stage: Stage) -> tuple[list[tuple[str, str]], list[str]]:
    """A night with one hit of each fault of `SHORT`: hits and violations."""
    faults, places = zip(*SHORT, strict=True)
    stage.build()
    wrong = perform(stage, _QUIET, Plan(faults, at=places, most=len(SHORT)), None)
    return stage.hits(), wrong


def _stop(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def main() -> int:
    """The command line; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--short", action="store_true", help="one night, each fault once")
    parser.add_argument("--keep", type=Path, help="folder of the service, kept at the end")
    record = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage((record.keep or Path(folder)) / "service")
        with stage.supervised():
            if record.short:
                hits, wrong = short(stage)
                print(json.dumps({"hits": hits, "wrong": wrong}, indent=1))
                return int(bool(wrong) or len(hits) < len(SHORT))
            try:
                prepare(stage, tally)
                every_kind(stage, tally)
            finally:  # print partial results after an interruption
                print(json.dumps({**asdict(tally), "load": os.getloadavg()[0]}, indent=1))
    return int(any(run.wrong for run in tally.runs))


if __name__ == "__main__":
    sys.exit(main())
