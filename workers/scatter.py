"""Tells what a calibration measured: scatter, modes, costs, and the smallest drop to be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from netbisect.bisect import anova, gap
from netbisect.workers.calibrate import CalibrationError, Plan, Runs

SIDES = (5, 10)
"""Boots per side for which the smallest drop is told."""
_FEWEST_FOR_MODES = 8
"""Boots, below which two modes cannot be told from two strays."""
_FEWEST = 5
"""Boots, below which the scatter is little more than a guess."""
_PAYS = 2
"""From which ratio on two runs within a boot tell more for their time than one."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one scenario says of the testbed; standard deviations and drops as ln ratios."""

    scenario: str
    boots: int
    runs: int
    level: float
    """Geometric mean, pps."""
    boot: anova.Spread | None
    """Between boots, without what their runs scatter; None when it cannot be told."""
    run: anova.Spread | None
    """Between runs within a boot; None without a boot of several."""
    single: float
    """Of a boot with one run: what a comparison of two kernels sees."""
    gap: gap.Gap | None
    saturated: bool
    drops: dict[int, float]
    """Smallest drop that is seen, by boots per side."""


def found(plan: Plan, runs: Runs) -> list[Found]:
    """By scenario.

    Raises:
        CalibrationError: fewer than two boots gave a sample.
    """
    return [_found(scenario.name, runs, plan.image_sd or 0.0) for scenario in plan.scenarios]


def _found(scenario: str, runs: Runs, image_sd: float) -> Found:
    groups = [[math.log(pps) for pps in boot] for boot in runs.of(scenario)]
    means = [fmean(group) for group in groups]
    if len(groups) < 2:  # noqa: PLR2004 - to see a scatter
        raise CalibrationError(f"{scenario}: {len(groups)} boot gave a sample; two are needed")
    boot = run = None
    if max(map(len, groups)) > 1:
        try:
            parts = anova.components(groups)
        except ValueError as error:
            raise CalibrationError(f"{scenario}: {error}") from error
        boot, run = parts.image, parts.boot
        single = math.hypot(boot.sd, run.sd)
    else:
        single = math.sqrt(math.fsum((one - fmean(means)) ** 2 for one in means) / (len(means) - 1))
    return Found(
        scenario=scenario,
        boots=len(groups),
        runs=sum(map(len, groups)),
        level=math.exp(fmean(means)),
        boot=boot,
        run=run,
        single=single,
        gap=gap.widest(means) if len(means) >= _FEWEST_FOR_MODES else None,
        saturated=any(one.saturated for one in runs.samples if one.scenario == scenario),
        drops={boots: anova.detectable(image_sd, single, boots) for boots in SIDES},
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds."""

    build: float
    """What the build of this kernel took."""
    boot: float
    """From the order to reboot until the kernel was proven to run; mean."""
    run: float
    """A run with everything around it; mean."""


def cost(plan: Plan, runs: Runs) -> Cost:
    """What a build, a boot and a run cost."""
    return Cost(
        plan.kernel.seconds,
        fmean(boot.seconds for boot in runs.boots.values()),
        fmean(sample.seconds for sample in runs.samples),
    )


def advice(results: Sequence[Found], price: Cost) -> float | None:
    """`run_noise_percent` for the lab file; None when boots made one run each.

    The best number of runs within a boot is the root of (run / boot)^2 (price of a boot / price of
    a run), by the optimal allocation of two-stage sampling (Cochran, Sampling Techniques, 1977,
    section 10.6); two pay where that square is more than 2. Elsewhere the answer is 0.
    """
    pairs = [(one.boot, one.run) for one in results if one.boot and one.run]
    if not pairs:
        return None
    worst = max(run.sd for _, run in pairs)
    pays = any(run.sd**2 * price.boot > _PAYS * boot.sd**2 * price.run for boot, run in pairs)
    return round(100 * worst, 2) if pays else 0.0


def as_data(plan: Plan, runs: Runs) -> dict[str, object]:
    """All of it, for JSON; spreads and drops in percent, times in seconds.

    Raises:
        CalibrationError: too little was measured.
    """
    results, price = found(plan, runs), cost(plan, runs)
    return {
        "testbed": plan.testbed.name,
        "kernel": plan.kernel.key,
        "revision": plan.kernel.revision,
        "image_noise_percent": None if plan.image_sd is None else 100 * plan.image_sd,
        "seconds": {"build": price.build, "boot": price.boot, "run": price.run},
        "run_noise_percent": advice(results, price),
        "scenarios": {
            one.scenario: {
                "boots": one.boots,
                "runs": one.runs,
                "pps": one.level,
                "boot_percent": _percents(one.boot),
                "run_percent": _percents(one.run),
                "single_run_boot_percent": 100 * one.single,
                "two_groups": one.gap
                and {
                    "slow": one.gap.slow,
                    "fast": one.gap.fast,
                    "gap_percent": 100 * math.expm1(one.gap.ln_ratio),
                },
                "saturated": one.saturated,
                "smallest_drop_percent": {
                    str(boots): _drop(drop) for boots, drop in one.drops.items()
                },
                "samples": runs.of(one.scenario),
            }
            for one in results
        },
    }


def as_text(plan: Plan, runs: Runs) -> str:
    """The same for people.

    Raises:
        CalibrationError: too little was measured.
    """
    results, price = found(plan, runs), cost(plan, runs)
    parts = [f"calibration of {plan.testbed.name} with {plan.kernel.version}"]
    for one in results:
        parts += ["", f"{one.scenario}: {one.boots} boots, {one.runs} runs, {one.level:,.0f} pps"]
        if one.saturated:
            parts.append("  saturated: this is the generator's rate; a slower kernel may not show")
        parts.append(f"  between boots       {_told(one.boot, 'runs within a boot')}")
        parts.append(f"  between runs        {_told(one.run, 'runs within a boot')}")
        parts.append(f"  boots of one run    sd {100 * one.single:.2f} %")
        parts.append(f"  two modes           {_modes(one)}")
        told = ", ".join(f"{_drop(drop):.1f} % by {n}" for n, drop in one.drops.items())
        parts.append(f"  smallest drop seen  {told} boots a side (5 % level, 80 % power)")
    noise = (
        "not known, and left out: the drops above are too small by it (see image-noise)"
        if plan.image_sd is None
        else f"sd {100 * plan.image_sd:g} %, and counted"
    )
    parts += [
        "",
        f"image noise: {noise}",
        f"cost: build {price.build:.0f} s, boot {price.boot:.0f} s, run {price.run:.0f} s",
    ]
    percent = advice(results, price)
    if percent is None:
        parts.append("for lab.toml: nothing; run_noise_percent needs several runs (--runs)")
    else:
        parts.append(f"for lab.toml: run_noise_percent = {percent:g}")
    if min(one.boots for one in results) < _FEWEST:
        parts.append(f"fewer than {_FEWEST} boots: take all of this as a first guess")
    return "\n".join(parts)


def _drop(ln_ratio: float) -> float:
    return -100 * math.expm1(-ln_ratio)


def _percents(spread: anova.Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"sd": 100 * spread.sd, "low": 100 * spread.low, "high": 100 * spread.high}


def _told(spread: anova.Spread | None, needed: str) -> str:
    if spread is None:
        return f"not told: several {needed} are needed"
    low, high = 100 * spread.low, 100 * spread.high
    return f"sd {100 * spread.sd:.2f} %  (90 % interval {low:.2f} to {high:.2f})"


def _modes(one: Found) -> str:
    if one.boots < _FEWEST_FOR_MODES:
        return f"not told: {_FEWEST_FOR_MODES} boots are needed, better 20"
    if one.gap is None:
        return f"none seen in {one.boots} boots"
    slow, share = one.gap.slow, one.gap.slow / one.boots
    apart = 100 * math.expm1(one.gap.ln_ratio)
    if min(slow, one.gap.fast) == 1:
        return f"one boot stands apart by {apart:.1f} %: a stray or a mode"
    return f"perhaps: {slow} of {one.boots} boots ({100 * share:.0f} %) are {apart:.1f} % slower"
