"""How often a search is right, and what it takes, beside what it has to take at least.

Plays searches on a paper laboratory: 64 or 256 commits, one of them slower by some percent or
none, known boot and image noise, both ends built and measured six times by the retest before.

The floor: at least (1 - d) log2 n - H(d) kernels must be built to be right with a chance of 1 - d
(Fano's inequality: a kernel tells one bit, whether the culprit is in it); and a boot cannot tell
more of that bit than noise lets through, nor can its last doubt go faster than the divergence of
the two levels (the bound of M. V. Burnashev, Problems of Information Transmission 12, 1976).
The floor knows both levels, and does not prove what it finds.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product

import click
import numpy as np

from netbisect.bisect.model import (
    Bisection,
    Candidate,
    Culprit,
    Evidence,
    Noise,
    NotReproduced,
    Prices,
)
from netbisect.bisect.rehearse import PaperLab, play

WRONG = 0.01
RETEST = 6
SCENARIO = "inet4-forwarding"


@dataclass(frozen=True)
class Setting:
    commits: int
    drop_percent: float
    boot_sd_percent: float
    image_sd_percent: float
    culprit: bool


@dataclass(frozen=True)
class Trial:
    ending: str
    builds: int
    boots: int
    hours: float


@dataclass(frozen=True)
class Row:
    setting: Setting
    trials: int
    right: float
    wrong: float
    none: float
    open: float
    builds: float
    builds_floor: float
    boots: float
    boots_floor: float
    hours_median: float
    hours_p95: float
    hours_floor: float


def rehearse(setting: Setting, seed: int) -> Trial:
    random = np.random.default_rng([seed, setting.commits, round(10 * setting.drop_percent)])
    revisions = [f"r{i}" for i in range(setting.commits + 1)]
    effect = math.log(1 - setting.drop_percent / 100)
    noise = Noise(setting.boot_sd_percent / 100, setting.image_sd_percent / 100)
    place = int(random.integers(1, len(revisions)))
    slow_from = place if setting.culprit else len(revisions)
    levels = {name: 14 + effect * (i >= slow_from) for i, name in enumerate(revisions)}
    lab = PaperLab(levels, noise, random)
    evidence = Evidence()
    for end in (revisions[0], revisions[-1]):
        evidence = lab.with_built(evidence, end)
        for _ in range(RETEST if setting.culprit else 0):
            evidence = lab.boot(evidence, end, (SCENARIO,), fresh=False)
    candidates = tuple(Candidate(name) for name in revisions[1:])
    question = Bisection(
        "paper", "paper", revisions[0], candidates, (SCENARIO,), SCENARIO, effect, noise
    )
    played = play(question, lab, evidence)
    match played.finding:
        case Culprit(revision=revision):
            ending = "right" if setting.culprit and revision == revisions[place] else "wrong"
        case NotReproduced():
            ending = "none"
        case _:
            ending = "open"
    return Trial(ending, played.builds, played.boots, played.seconds / 3600)


def floor(setting: Setting) -> tuple[float, float, float]:
    """Builds, boots and hours that no search can do without."""
    if not setting.culprit:
        return 0.0, 0.0, 0.0
    noise = math.hypot(setting.boot_sd_percent, setting.image_sd_percent)
    distance = -100 * math.log(1 - setting.drop_percent / 100) / noise
    doubt = -WRONG * math.log2(WRONG) - (1 - WRONG) * math.log2(1 - WRONG)
    bits = (1 - WRONG) * math.log2(setting.commits)
    builds = bits - doubt
    boots = max(builds, bits / capacity(distance) + math.log(1 / WRONG) * 2 / distance**2)
    prices = Prices()
    return builds, boots, (builds * prices.build + boots * (prices.boot + prices.run)) / 3600


def capacity(distance: float) -> float:
    """Bits that one boot can tell of a side, `distance` standard deviations apart."""
    x = np.linspace(-9, 9 + distance, 4001)
    density = np.exp(-(np.array([x, x - distance]) ** 2) / 2) / math.sqrt(2 * math.pi)
    mixed = density.mean(axis=0)
    entropy = -np.sum(mixed * np.log2(mixed)) * (x[1] - x[0])
    return float(entropy - math.log2(2 * math.pi * math.e) / 2)


def summarise(setting: Setting, trials: Sequence[Trial]) -> Row:
    endings = Counter(trial.ending for trial in trials)
    hours = [trial.hours for trial in trials]
    builds, boots, least = floor(setting)
    return Row(
        setting,
        len(trials),
        endings["right"] / len(trials),
        endings["wrong"] / len(trials),
        endings["none"] / len(trials),
        endings["open"] / len(trials),
        float(np.mean([trial.builds for trial in trials])),
        builds,
        float(np.mean([trial.boots for trial in trials])),
        boots,
        float(np.median(hours)),
        float(np.percentile(hours, 95)),
        least,
    )


def line(row: Row) -> str:
    setting = row.setting
    drop = (
        f"-{setting.drop_percent:.1f} %" if setting.culprit else f"(-{setting.drop_percent:.1f} %)"
    )
    return (
        f"{setting.commits:7d} {drop:>9} {setting.image_sd_percent:5.1f} % "
        f"{row.right:6.0%} {row.wrong:6.0%} {row.none:6.0%} {row.open:6.0%} "
        f"{row.builds:7.1f} ({row.builds_floor:4.1f}) {row.boots:6.1f} ({row.boots_floor:4.1f}) "
        f"{row.hours_median:6.2f} {row.hours_p95:6.2f} ({row.hours_floor:4.2f})"
    )


@click.command(help=__doc__)
@click.option("--trials", default=15, show_default=True, help="Searches per row.")
@click.option("--seed", default=1, show_default=True, help="Of the first search of a row.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def main(trials: int, seed: int, as_json: bool) -> None:
    settings = [
        Setting(commits, drop, 0.9, image, culprit)
        for culprit, commits, drop, image in product(
            (True, False), (64, 256), (11.0, 5.0, 3.2), (0.0, 1.0)
        )
        if culprit or commits == 64
    ]
    if not as_json:
        print(f"{trials} searches per row, boot sd 0.9 %; in brackets the floor, and in the rows")
        print("below it the drop that is looked for where there is none")
        print(
            "commits      drop   image  right  wrong   none   open  builds         boots        "
            "  hours    p95"
        )
    with ProcessPoolExecutor() as pool:
        for setting in settings:
            jobs = [pool.submit(rehearse, setting, seed + i) for i in range(trials)]
            row = summarise(setting, [job.result() for job in jobs])
            print(json.dumps(asdict(row)) if as_json else line(row), flush=True)


if __name__ == "__main__":
    main()
