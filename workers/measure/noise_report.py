"""Reports a calibration: noise, modes, costs, and the smallest detectable drop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.stats import bimodality, variance_components
from netbisect.bisect.stats.variance_components import Components, Spread
from netbisect.workers.measure.calibrate import CalibrationPlan, NoiseRuns
from netbisect.workers.transport.errors import NoiseError

SIDES = (5, 10)
"""Boots per side of the reported drops."""
_FEWEST_FOR_MODES = 8
"""Minimal boots to distinguish two modes from outliers."""
_FEWEST = 5
"""Minimal boots for a useful estimate of noise."""
_PAYS = 2
"""Ratio above which a second run per boot pays."""


@dataclass(frozen=True, slots=True)
class ScenarioNoise:
    """Noise of one series; standard deviations and drops as ln ratios."""

    scenario: str
    boots: int
    runs: int
    level: float
    """Geometric mean, in the unit of the series."""
    boot: Spread | None
    """Between boots, without the noise of runs; None if unknown."""
    run: Spread | None
    """Between runs of a boot; None without boots of several runs."""
    single: float
    """Noise of boots with one run, as in a comparison of two kernels."""
    gap: bimodality.BootGap | None
    saturated: bool
    drops: dict[int, float]
    """Smallest detectable drop by boots per side."""


def scenario_noise(plan: CalibrationPlan, runs: NoiseRuns) -> list[ScenarioNoise]:
    """Noise by series.

    Raises:
        NoiseError: fewer than two boots with a sample.
    """
    return [_found(name, runs, plan.image_sd or 0.0) for name in plan.series]


def _found(scenario: str, runs: NoiseRuns, image_sd: float) -> ScenarioNoise:
    metric = metric_of(scenario)
    groups = [[metric.level(number) for number in boot] for boot in runs.of(scenario)]
    means = [fmean(group) for group in groups]
    if len(groups) < 2:  # noqa: PLR2004 - to see a scatter
        raise NoiseError(f"{scenario}: {len(groups)} boot gave a sample; two are needed")
    boot = run = None
    if max(map(len, groups)) > 1:
        parts = components(scenario, groups)
        boot, run = parts.image, parts.boot
        single = math.hypot(boot.sd, run.sd)
    else:
        single = stdev(means)
    return ScenarioNoise(
        scenario=scenario,
        boots=len(groups),
        runs=sum(map(len, groups)),
        level=metric.number(fmean(means)),
        boot=boot,
        run=run,
        single=single,
        gap=bimodality.widest_gap(means) if len(means) >= _FEWEST_FOR_MODES else None,
        saturated=any(one.saturated for one in runs.samples if one.scenario == scenario),
        drops={boots: variance_components.detectable(image_sd, single, boots) for boots in SIDES},
    )


def components(series: str, groups: Sequence[Sequence[float]]) -> Components:
    """Variance components of grouped levels; raises NoiseError for too few samples."""
    try:
        return variance_components.components(groups)
    except ValueError as error:
        raise NoiseError(f"{series}: {error}") from error


def durations(plan: CalibrationPlan, runs: NoiseRuns) -> dict[str, float]:
    """Seconds of the build of this kernel, and means of a boot and of a run with set-up."""
    boots = fmean(boot.seconds for boot in runs.boots.values())
    run = fmean(sample.seconds for sample in runs.samples)
    return {"build": plan.kernel.seconds, "boot": boots, "run": run}


def recommended_run_noise(
    results: Sequence[ScenarioNoise], price: Mapping[str, float]
) -> float | None:
    """`run_noise_percent` for the lab file; None if boots have one run each.

    Optimal runs per boot: sqrt((run / boot)^2 (cost of a boot / cost of a run)), by the optimal
    allocation of two-stage sampling (Cochran, Sampling Techniques, 1977, section 10.6). Two runs
    pay if the square exceeds 2; otherwise the result is 0.
    """
    pairs = [(one.boot, one.run) for one in results if one.boot and one.run]
    if not pairs:
        return None
    worst = max(run.sd for _, run in pairs)
    pays = any(run.sd**2 * price["boot"] > _PAYS * boot.sd**2 * price["run"] for boot, run in pairs)
    return round(100 * worst, 2) if pays else 0.0


def as_data(plan: CalibrationPlan, runs: NoiseRuns) -> dict[str, object]:
    """The report as JSON; spreads and drops in percent, times in seconds.

    Raises:
        NoiseError: too few samples.
    """
    results, price = scenario_noise(plan, runs), durations(plan, runs)
    return {
        "testbed": plan.testbed.name,
        "kernel": plan.kernel.key,
        "revision": plan.kernel.revision,
        "image_noise_percent": None if plan.image_sd is None else 100 * plan.image_sd,
        "seconds": price,
        "run_noise_percent": recommended_run_noise(results, price),
        "scenarios": {
            one.scenario: {
                "boots": one.boots,
                "runs": one.runs,
                "level": one.level,
                "unit": metric_of(one.scenario).unit,
                "better": metric_of(one.scenario).better,
                "boot_percent": one.boot and percents(one.boot),
                "run_percent": one.run and percents(one.run),
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


def as_text(plan: CalibrationPlan, runs: NoiseRuns) -> str:
    """The report as text.

    Raises:
        NoiseError: too few samples.
    """
    results, price = scenario_noise(plan, runs), durations(plan, runs)
    parts = [f"calibration of {plan.testbed.name} with {plan.kernel.version}"]
    for one in results:
        level = metric_of(one.scenario).text(one.level)
        parts += ["", f"{one.scenario}: {one.boots} boots, {one.runs} runs, {level}"]
        if one.saturated:
            parts.append("  saturated: this is the generator's rate; a slower kernel may not show")
        drops = ", ".join(f"{_drop(drop):.1f} % by {n}" for n, drop in one.drops.items())
        parts += [
            f"  between boots       {spread_text(one.boot)}",
            f"  between runs        {spread_text(one.run)}",
            f"  boots of one run    sd {100 * one.single:.2f} %",
            f"  two modes           {_modes(one)}",
            f"  smallest drop seen  {drops} boots per side (5 % level, 80 % power)",
        ]
    noise = (
        "unknown and not included: the smallest detectable drops are larger (see image-noise)"
        if plan.image_sd is None
        else f"sd {100 * plan.image_sd:g} %, included"
    )
    percent = recommended_run_noise(results, price)
    advice = "nothing; run_noise_percent needs several runs (--runs)"
    parts += [
        "",
        f"image noise: {noise}",
        f"cost: {', '.join(f'{name} {seconds:.0f} s' for name, seconds in price.items())}",
        f"for lab.toml: {advice if percent is None else f'run_noise_percent = {percent:g}'}",
    ]
    if min(one.boots for one in results) < _FEWEST:
        parts.append(f"fewer than {_FEWEST} boots: take all of this as a first guess")
    return "\n".join(parts)


def _drop(ln_ratio: float) -> float:
    return -100 * math.expm1(-ln_ratio)


def percents(spread: Spread) -> dict[str, float]:
    """A spread as JSON, in percent."""
    return {"sd": 100 * spread.sd, "low": 100 * spread.low, "high": 100 * spread.high}


def spread_text(spread: Spread | None) -> str:
    """A spread with its interval, in percent; None is one that needs several runs."""
    if spread is None:
        return "unknown: several runs within a boot are needed"
    low, high = 100 * spread.low, 100 * spread.high
    return f"sd {100 * spread.sd:.2f} %  (90 % interval {low:.2f} to {high:.2f})"


def _modes(one: ScenarioNoise) -> str:
    if one.boots < _FEWEST_FOR_MODES:
        return f"unknown: {_FEWEST_FOR_MODES} boots are needed, better 20"
    if one.gap is None:
        return f"none seen in {one.boots} boots"
    slow, share = one.gap.slow, one.gap.slow / one.boots
    apart = 100 * math.expm1(one.gap.ln_ratio)
    if min(slow, one.gap.fast) == 1:
        return f"one boot stands apart by {apart:.1f} %: an outlier or a mode"
    return f"perhaps: {slow} of {one.boots} boots ({100 * share:.0f} %) are {apart:.1f} % slower"
