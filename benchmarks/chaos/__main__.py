"""`python -m benchmarks.chaos`: hits a service at every step of a night, a retest and a search.

One run without faults says which steps there are, and what the answer is. Then each kind of fault
hits each step once: so many in one run, the service started again after each. A step is known by
its name, which says what it is of; one that comes again after a restart is not hit again. One step
of each kind comes first, such as the second boot of a search among its boots; then all others.
Every run must end with the same answer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

from benchmarks.chaos import audit, script
from benchmarks.chaos.script import FAULTS, Plan, general
from benchmarks.chaos.stage import Stage, StageError

_IN_A_RUN = {script.MASTER: 60, script.WORKER: 40, script.LAB: 6}
"""Hits, after which the next run begins from the beginning."""
_OTHERS_IN_A_RUN = 30
SHORT = (
    (script.MASTER, "before commit of night 1: decided"),
    (script.DATABASE, "after commit of night 1: submitted"),
    (script.VISIT, "before c2558-dut runs sysctl"),
    (script.WORKER, "after commit of night 1: boot"),
    (script.DISK, "before step upload logs"),
    (script.MASTER, "after the order nb:recover"),
)


@dataclass
class Kind:
    """What became of one kind of fault."""

    tried: int = 0
    survived: int = 0
    runs: int = 0
    untried: int = 0
    """Steps that were seen, and not hit."""
    kinds_of_steps: int = 0
    """That were hit, names and numbers apart."""
    steps: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def prepare(stage: Stage) -> None:
    """A quiet night, after which the slow commit lands; that is where every run begins."""
    stage.build()
    stage.start(Plan(()))
    stage.night()
    stage.watch()
    stage.stop()
    stage.tree.land(len(stage.tree.revisions))
    (stage.place / "journal").unlink()
    stage.save()


def perform(stage: Stage, plan: Plan, expected: audit.Answer | None) -> list[str]:
    """One run to its end; what is wrong then, in sentences."""
    stage.start(plan)
    wrong = []
    try:
        stage.night()
        stage.watch()
        wrong = list(audit.faults(stage, expected))
    except StageError as error:
        wrong = [str(error)]
    stage.stop()
    wrong += [f"it still runs: {one}" for one in stage.strays()]
    return wrong


def steps_of(stage: Stage) -> list[str]:
    """All steps that were seen in the last run."""
    return [line[1] for line in stage.journal() if line[0] == "seen"]


def every_step(
    stage: Stage, faults: Sequence[str], end: float
) -> tuple[list[str], dict[str, Kind]]:
    """All of it; ends when the time is over."""
    stage.restore()
    wrong = perform(stage, Plan(()), None)
    if wrong:
        raise StageError(f"without faults: {wrong[0]}")
    known, expected = steps_of(stage), audit.answer(stage)
    print(f"{len(known)} steps; {expected}", file=sys.stderr)
    kinds = {fault: Kind() for fault in faults}
    seen: dict[str, set[str]] = {fault: {*known} for fault in faults}
    waiting = [(fault, True) for fault in faults]
    while waiting and time.monotonic() < end:
        fault, by_kind = waiting.pop(0)
        kind = kinds[fault]
        stage.restore()
        began = time.monotonic()
        most = _IN_A_RUN.get(fault, _OTHERS_IN_A_RUN)
        plan = Plan((fault,), spared=tuple(kind.steps), kinds=by_kind, most=most)
        wrong = perform(stage, plan, expected)
        hits = [step for step, _ in stage.hits()]
        seen[fault].update(steps_of(stage))
        kind.runs += 1
        kind.tried += len(hits)
        kind.survived += 0 if wrong else len(hits)
        kind.steps += hits
        kind.wrong += wrong
        kind.kinds_of_steps = len({general(step) for step in kind.steps})
        kind.untried = len(seen[fault] - {*kind.steps})
        print(
            f"{fault}: {len(hits)} hits in {time.monotonic() - began:.0f} s, "
            f"{stage.restarts} restarts, {kind.untried} left; {wrong or 'all is well'}",
            file=sys.stderr,
            flush=True,
        )
        if wrong:
            print(*(f"  {step}" for step in hits), sep="\n", file=sys.stderr, flush=True)
        if hits:
            waiting.append((fault, by_kind))
        elif by_kind:
            waiting.append((fault, False))
    return known, kinds


def short(stage: Stage) -> tuple[list[tuple[str, str]], list[str]]:
    """One night that is hit once by each of `SHORT`: the hits, and what is wrong."""
    faults, places = zip(*SHORT, strict=True)
    stage.build()
    wrong = perform(stage, Plan(faults, at=places, most=len(SHORT), patience=2), None)
    return stage.hits(), wrong


def as_text(known: list[str], kinds: dict[str, Kind]) -> str:
    """A table."""
    lines = [
        f"{len(known)} steps without faults",
        f"{'':10} {'tried':>6} {'survived':>9} {'kinds of steps':>15} {'left':>10} {'runs':>5}",
    ]
    for name, kind in kinds.items():
        lines.append(
            f"{name:10} {kind.tried:6} {kind.survived:9} {kind.kinds_of_steps:15} "
            f"{kind.untried:10} {kind.runs:5}"
        )
        lines += [f"    {one}" for one in kind.wrong]
    return "\n".join(lines)


def _stop(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def main() -> int:
    """The command line; 1 when something did not come through."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--short", action="store_true", help="one night, each fault once")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="(default: all)")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no run after these")
    parser.add_argument("--keep", type=Path, help="folder of the service, left for a look")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    end = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage((asked.keep or Path(folder)) / "house")
        with stage.nursery():
            if asked.short:
                hits, wrong = short(stage)
                told = {"hits": hits, "wrong": wrong}
                print(json.dumps(told, indent=1) if asked.json else told)
                return int(bool(wrong) or len(hits) < len(SHORT))
            prepare(stage)
            known, kinds = every_step(stage, asked.fault or list(FAULTS), end)
    if asked.json:
        told = {"steps": known, **{name: asdict(kind) for name, kind in kinds.items()}}
        print(json.dumps({**told, "load": os.getloadavg()[0]}, indent=1))
    else:
        print(as_text(known, kinds))
    return int(any(kind.wrong for kind in kinds.values()))


if __name__ == "__main__":
    sys.exit(main())
