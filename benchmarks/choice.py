"""What it takes to choose the next action among many candidates.

    python -m benchmarks.choice                                  # 4,000 candidates

Plays a search on paper and times every choice, from the facts to the move, by the processor's
clock. Peak memory is that of the whole process, Python and NumPy included.
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import sys
import time

import click
import numpy as np

from netbisect.bisect import search
from netbisect.bisect.meanwhile import Meanwhile
from netbisect.bisect.model import Bisection, Candidate, Evidence, Noise, Visit, kernel_name
from netbisect.bisect.rehearse import PaperLab

_DROP = math.log(0.96)
KINDS = {
    "boots scatter": (Noise(boot=0.004, run=0.01), 0, 0),
    "images have offsets": (Noise(boot=0.009, image=0.005), 0, 0),
    "further layouts": (Noise(boot=0.009, image=0.013), 0, 12),
    "two testbeds": (Noise(boot=0.004, run=0.01), 1, 0),
}
"""Noise, testbeds that help, and further layouts of a revision."""


def choices(candidates: int, noise: Noise, others: int, layouts: int) -> list[float]:
    """Plays a search to its end; seconds of the processor for each choice."""
    names = [f"r{i}" for i in range(candidates + 1)]
    culprit = candidates * 2 // 3
    levels = {name: 14 + _DROP * (i >= culprit) for i, name in enumerate(names)}
    testbeds = ["dut1", *(f"dut{i}" for i in range(2, others + 2))]
    apart = {name: 0.03 * i for i, name in enumerate(testbeds)}
    lab = PaperLab(levels, noise, np.random.default_rng(1), apart=apart)
    question = Bisection(
        *("main", "dut1", names[0], tuple(map(Candidate, names[1:])), ("v4",), "v4", _DROP, noise),
        others=dict.fromkeys(testbeds[1:], noise),
        layouts=layouts,
    )
    evidence = lab.with_built(lab.with_built(Evidence(), names[0]), names[-1])
    taken: list[float] = []
    while True:
        under_way: tuple[Visit, ...] = ()
        for testbed in testbeds:
            seen = Meanwhile(testbed=testbed if others else "", under_way=under_way)
            began = time.process_time()
            move = search.next_together(question, evidence, lab.prices, seen)
            taken.append(time.process_time() - began)
            if isinstance(move, Visit):
                under_way += (move,)
        if not under_way:
            return taken
        for visit in under_way:
            if kernel_name(visit.revision, visit.layout) not in evidence.kernels:
                evidence = lab.build(evidence, visit.revision, visit.layout)
            evidence = lab.boot(
                evidence,
                visit.revision,
                question.scenarios,
                runs=visit.runs,
                testbed=visit.testbed,
                layout=visit.layout,
            )


@click.command(help=__doc__)
@click.option("--candidates", type=click.IntRange(2), default=4000, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="A list with one row per kind of search.")
def main(candidates: int, *, as_json: bool) -> None:
    """Measures and prints."""
    rows = []
    for kind, (noise, others, layouts) in KINDS.items():
        taken = choices(candidates, noise, others, layouts)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unit = 1 if sys.platform == "darwin" else 1024
        rows.append(
            {
                "search": kind,
                "candidates": candidates,
                "choices": len(taken),
                "seconds_median": round(statistics.median(taken), 3),
                "seconds_most": round(max(taken), 3),
                "megabytes": round(peak * unit / 2**20),
            }
        )
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(
            f"{row['search']:20} {row['choices']:4} choices: {row['seconds_median']:.3f} s in the "
            f"median, {row['seconds_most']:.3f} s at most, {row['megabytes']} MB"
        )


if __name__ == "__main__":
    main()
