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

_TOGETHER = (script.MASTER, script.WORKER, script.VISIT, script.DATABASE, script.DISK)
_APART = (script.LAB,)
"""Faults that are mixed in a run, and one after which testbeds may go into quarantine."""
_IN_A_RUN = {_APART: 6}
_OTHERS_IN_A_RUN = 100
"""Hits, after which the next run begins from the beginning."""
SHORT = (
    (script.MASTER, "before commit of night 1: decided"),
    (script.DATABASE, "after commit of night 1: submitted"),
    (script.VISIT, "before c2558-dut runs sysctl"),
    (script.WORKER, "after commit of night 1: boot"),
    (script.DISK, "before step keep logs"),
    (script.MASTER, "after the order nb:recover"),
)


@dataclass
class Kind:
    """What became of one kind of fault."""

    tried: int = 0
    survived: int = 0
    runs: int = 0
    left: int = 0
    """Steps that were seen, and not hit by it."""
    steps: list[str] = field(default_factory=list)
    """Kinds of steps that were hit: names and numbers apart."""
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


def _count(
    kinds: dict[str, Kind], group: Sequence[str], hits: list[tuple[str, str]], wrong: list[str]
) -> None:
    """Adds a run: where something is wrong in the end, none of its hits counts as survived."""
    for fault in group:
        kind = kinds[fault]
        own = [step for step, one in hits if one == fault]
        kind.runs += 1
        kind.tried += len(own)
        kind.survived += 0 if wrong else len(own)
        kind.wrong += wrong
        kind.steps = sorted({*kind.steps, *map(general, own)})


@dataclass
class Told:
    """All that is known of it, as it is printed and taken up again."""

    answer: audit.Answer
    steps: list[str]
    """That were seen, with faults and without."""
    hits: list[tuple[str, str]] = field(default_factory=list)
    """Steps and faults."""
    kinds: dict[str, Kind] = field(default_factory=dict)


def look(stage: Stage) -> Told:
    """One run without faults.

    Raises:
        StageError: something is wrong without any.
    """
    stage.restore()
    wrong = perform(stage, Plan(()), None)
    if wrong:
        raise StageError(f"without faults: {wrong[0]}")
    return Told(audit.answer(stage), steps_of(stage))


def earlier(path: Path) -> Told:
    """What an earlier call has printed."""
    told = json.loads(path.read_text())
    answer = {name: _tuples(value) for name, value in told["answer"].items()}
    return Told(
        audit.Answer(**answer),
        told["steps"],
        [(step, fault) for step, fault in told["hits"]],
        {name: Kind(**kind) for name, kind in told["kinds"].items()},
    )


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def every_step(stage: Stage, told: Told, faults: Sequence[str], end: float) -> None:
    """All of it; begins no run when the time is over."""
    for fault in faults:
        told.kinds.setdefault(fault, Kind())
    groups = [tuple(one for one in group if one in faults) for group in (_TOGETHER, _APART)]
    waiting = [(group, True) for group in groups if group]
    while waiting and time.monotonic() < end:
        group, by_kind = waiting.pop(0)
        stage.restore()
        began = time.monotonic()
        most = _IN_A_RUN.get(group, _OTHERS_IN_A_RUN)
        plan = Plan(group, spared=tuple(told.hits), kinds=by_kind, most=most)
        wrong = perform(stage, plan, told.answer)
        hits = stage.hits()
        told.steps = [*dict.fromkeys([*told.steps, *steps_of(stage)])]
        told.hits += hits
        _count(told.kinds, group, hits, wrong)
        print(
            f"{', '.join(group)}: {len(hits)} hits in {time.monotonic() - began:.0f} s, "
            f"{stage.restarts} restarts; {wrong or 'all is well'}",
            *(f"  {fault}: {step}" for step, fault in hits if wrong),
            sep="\n",
            file=sys.stderr,
            flush=True,
        )
        if hits:
            waiting.append((group, by_kind))
        elif by_kind:
            waiting.append((group, False))
    for fault, kind in told.kinds.items():
        kind.left = len({*told.steps} - {step for step, one in told.hits if one == fault})


def short(stage: Stage) -> tuple[list[tuple[str, str]], list[str]]:
    """One night that is hit once by each of `SHORT`: the hits, and what is wrong."""
    faults, places = zip(*SHORT, strict=True)
    stage.build()
    wrong = perform(stage, Plan(faults, at=places, most=len(SHORT), patience=2), None)
    return stage.hits(), wrong


def as_text(told: Told) -> str:
    """A table."""
    lines = [
        f"{len(told.steps)} steps",
        f"{'':10} {'tried':>6} {'survived':>9} {'kinds of steps':>15} {'left':>10} {'runs':>5}",
    ]
    for name, kind in told.kinds.items():
        lines.append(
            f"{name:10} {kind.tried:6} {kind.survived:9} {len(kind.steps):15} "
            f"{kind.left:10} {kind.runs:5}"
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
    parser.add_argument("--after", type=Path, help="go on where this JSON of an earlier call ends")
    parser.add_argument("--keep", type=Path, help="folder of the service, left for a look")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    end = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage((asked.keep or Path(folder)) / "house")
        with stage.nursery():
            if asked.short:
                hits, wrong = short(stage)
                brief = {"hits": hits, "wrong": wrong}
                print(json.dumps(brief, indent=1) if asked.json else brief)
                return int(bool(wrong) or len(hits) < len(SHORT))
            prepare(stage)
            told = earlier(asked.after) if asked.after else look(stage)
            every_step(stage, told, asked.fault or list(FAULTS), end)
    if asked.json:
        print(json.dumps({**asdict(told), "load": os.getloadavg()[0]}, indent=1))
    else:
        print(as_text(told))
    return int(any(kind.wrong for kind in told.kinds.values()))


if __name__ == "__main__":
    sys.exit(main())
