"""A comparison in the form of netbenches' results: a README, a box plot, and the raw values.

netbenches (https://github.com/ocochard/netbenches) keeps for every comparison a directory with
a README.md, one `.pps` file for every set with a value per boot, and a graph.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from html import escape
from itertools import chain, count

from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.stats.bimodality import widest_gap
from netbisect.bisect.stats.effect import difference as welch_difference
from netbisect.reports.documents.netbenches_study import Study
from netbisect.reports.model.compared import ComparedScenario, Set
from netbisect.reports.render import words
from netbisect.reports.render.ministat import (
    POINTS_MIN,
    SETS_MAX,
    MinistatDifference,
    Variant,
    difference,
    ministat,
    vitals,
)
from netbisect.reports.render.templating import environment

_PROGRAM = {
    Variant.V2013: "FreeBSD 10",
    Variant.V2015: "FreeBSD 11",
    Variant.V2017: "FreeBSD 12",
    Variant.CURRENT: "FreeBSD 13.2 and later",
}
_NARROWEST, _WIDEST = 2, 1000
"""Columns of a plot."""
_LARGE = 100
"""Percentage from which fractions are not shown."""
_ONE_IMAGE = (
    "Every set is one kernel image. Images of equivalent code can differ by several percent "
    "because of their code layout, and more boots do not average that out: a small difference "
    "needs other images before and after that show it, too."
)


def check(study: Study) -> None:
    """Raises ValueError, with one sentence, if a study cannot be written."""
    if not words.clean(study.title):
        raise ValueError("there is no title; expected a line such as 'Impact of D5180' (--title)")
    if not study.scenarios:
        raise ValueError("the study has no scenario; expected at least one")
    if not _NARROWEST <= study.width <= _WIDEST:
        raise ValueError(
            f"the width of the plots is {study.width}; expected {_NARROWEST} to {_WIDEST}"
        )
    names = [scenario.name for scenario in study.scenarios]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two scenarios are named {name!r}; expected different names")
    for scenario in study.scenarios:
        _check_scenario(scenario)


def _check_scenario(scenario: ComparedScenario) -> None:
    if not 1 <= len(scenario.sets) <= SETS_MAX:
        raise ValueError(
            f"scenario {scenario.name!r} has {len(scenario.sets)} sets; "
            f"expected 1 to {SETS_MAX}, for which ministat has symbols"
        )
    for one in scenario.sets:
        where = f"set {one.name!r} of scenario {scenario.name!r}"
        if len(one.pps) < POINTS_MIN:
            raise ValueError(
                f"{where} has {words.count(len(one.pps), 'value')}; expected {POINTS_MIN} or more"
            )
        for value in one.pps:
            if not 0 <= value < math.inf:
                raise ValueError(f"{where}: {value:g} is not a rate in packets per second")


def files(study: Study) -> dict[str, bytes]:
    """All files of the directory, by name. Raises ValueError as `check`, or from ministat."""
    from netbisect.reports.plots.netbenches_plot import boxes  # noqa: PLC0415 - long to load

    found = {"README.md": readme(study).encode()}
    for kind, picture in boxes(study.scenarios, words.clean(study.title)).items():
        found[f"graph.{kind}"] = picture
    for scenario, its in zip(study.scenarios, _file_names(study), strict=True):
        for one, name in zip(scenario.sets, its, strict=True):
            found[name] = "".join(f"{_number(value)}\n" for value in one.pps).encode()
    for graph in study.flame_graphs:
        if graph.file in found:
            raise ValueError(f"two files are named {graph.file}; expected different names")
        found[graph.file] = graph.svg
    return found


def readme(study: Study) -> str:
    """The text of README.md. Raises ValueError as `check`, or from ministat."""
    check(study)
    named = _file_names(study)
    return environment.get_template("netbenches.txt").render(
        title=_text(study.title),
        conditions=[_text(line) for line in study.conditions],
        confidence=f"{study.confidence:.1f}",
        synthesis=[line for scenario in study.scenarios for line in _synthesis(study, scenario)],
        scenarios=[
            (_text(scenario.heading or f"On {scenario.name}:"), _block(study, scenario))
            for scenario in study.scenarios
        ],
        effects=[line for scenario in study.scenarios for line in _effects(study, scenario)],
        remarks=[
            *(
                _text(line)
                for scenario in study.scenarios
                for one in scenario.sets
                for line in _oddities(_full(study, scenario, one), one.pps, scenario.series)
            ),
            *map(_text, study.remarks),
            _ONE_IMAGE,
        ],
        flame_graphs=[(_label(one.name), one.file) for one in study.flame_graphs],
        files=[
            (name, f"{_text(one.name)}, {words.count(len(one.pps), 'boot')}{_unit(scenario)}")
            for scenario, its in zip(study.scenarios, named, strict=True)
            for one, name in zip(scenario.sets, its, strict=True)
        ],
        command=f"ministat -s -w {study.width}{_level(study)} {shlex.join(named[0])}",
        program=_PROGRAM[study.variant],
    )


def _level(study: Study) -> str:
    return "" if study.confidence == 95.0 else f" -c {study.confidence:g}"  # noqa: PLR2004 - its default


def _unit(scenario: ComparedScenario) -> str:
    """Unit of values that are no packet rates."""
    unit = metric_of(scenario.series).unit
    return "" if unit == "pps" else f", in {_text(unit)}"


def _block(study: Study, scenario: ComparedScenario) -> str:
    return ministat(
        [(words.clean(one.name), one.pps) for one in scenario.sets],
        width=study.width,
        confidence=study.confidence,
        variant=study.variant,
    )


def _synthesis(study: Study, scenario: ComparedScenario) -> list[str]:
    """Differences of the sets from the first: one line, or one for each set below it."""
    reference, *others = [vitals(one.name, one.pps, study.variant) for one in scenario.sets]
    found = [
        (
            one.name,
            _change(
                difference(one, reference, study.confidence, study.variant),
                metric_of(scenario.series).unit,
            ),
        )
        for one in others
    ]
    return _items(scenario, found)


def _effects(study: Study, scenario: ComparedScenario) -> list[str]:
    """The same by a test with fewer assumptions than that of ministat."""
    reference, *others = scenario.sets
    return _items(
        scenario,
        [(one.name, _welch(reference.pps, one.pps, study.confidence)) for one in others],
    )


def _welch(reference: Sequence[float], other: Sequence[float], confidence: float) -> str:
    """Difference of a set from the reference, with its interval: `-10.9 % (-11.7 to -10.1)`.

    Both have one value per boot, in packets per second; `confidence` is in percent.
    """
    if min(*reference, *other) <= 0:
        return "none, because a boot forwarded nothing"
    logarithms = [[math.log(rate) for rate in rates] for rates in (reference, other)]
    return words.change(welch_difference(logarithms[0], logarithms[1], "", confidence / 100))


def _items(scenario: ComparedScenario, found: Sequence[tuple[str, str]]) -> list[str]:
    name = _text(scenario.name)
    if not found:
        return [f"  - {name}: nothing to compare with"]
    if len(found) == 1:
        return [f"  - {name}: {found[0][1]}"]
    return [
        f"  - {name}, against {_text(scenario.sets[0].name)}:",
        *(f"    - {_text(other)}: {change}" for other, change in found),
    ]


def _full(study: Study, scenario: ComparedScenario, one: Set) -> str:
    """Name of a set, unique over all scenarios."""
    same = [each.name for other in study.scenarios for each in other.sets]
    return one.name if same.count(one.name) == 1 else f"{one.name} in {scenario.name}"


def _oddities(name: str, pps: Sequence[float], series: str = "") -> list[str]:
    """Remarks on unusual boots of a set, one sentence each.

    `pps` has one value per boot, in the unit of the series.
    """
    dead = sum(rate <= 0 for rate in pps)
    found = [f"{name}: {words.count(dead, 'boot')} forwarded nothing."] if dead else []
    ordered = sorted(rate for rate in pps if rate > 0)
    gap = widest_gap([math.log(rate) for rate in ordered])
    if gap is None:
        return found
    apart = words.percent(gap.ln_ratio).lstrip("+")
    boots = len(ordered)
    if min(gap.slow, gap.fast) == 1:
        below = gap.slow == 1
        size = words.percent(-gap.ln_ratio if below else gap.ln_ratio).lstrip("+-")
        found.append(
            f"{name}: one of {boots} boots is {size} {'below' if below else 'above'} the others; "
            "an outlier moves the mean and widens ministat's interval."
        )
    else:
        found.append(
            f"{name}: the boots are of two kinds, {gap.slow} near "
            f"{words.number(ordered[gap.slow // 2], series)} and {gap.fast} near "
            f"{words.number(ordered[gap.slow + gap.fast // 2], series)}, {apart} apart; their mean "
            "mostly shows the share of either kind."
        )
    return found


def _change(found: MinistatDifference, unit: str) -> str:
    if not found.proven:
        return "No difference proven"
    if not (math.isfinite(found.percent) and math.isfinite(found.percent_error)):
        return f"{found.difference:+.6g} +/- {found.error:.6g} {unit}"
    small = found.percent_error or abs(found.percent)
    # As many digits as the error has to say something, in tenths as a rule.
    digits = max(1, -math.floor(math.log10(small))) if small else 1
    if abs(found.percent) >= _LARGE:
        digits = 0
    return f"{_short(found.percent, digits, '+')}% +/- {_short(found.percent_error, digits)}%"


def _short(value: float, digits: int, sign: str = "-") -> str:
    text = f"{value:{sign}.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _file_names(study: Study) -> list[list[str]]:
    """File names of the raw values, by scenario."""
    taken: set[str] = set()
    named = []
    for scenario in study.scenarios:
        its = []
        for one in scenario.sets:
            whole = _safe(f"{one.name}.{scenario.name}")
            numbered = (f"{whole.removesuffix('.pps')}.{number}.pps" for number in count(2))
            names = chain([_safe(one.file) if one.file else whole, whole], numbered)
            name = next(name for name in names if name.lower() not in taken)
            taken.add(name.lower())
            its.append(name)
        named.append(its)
    return named


def _safe(name: str) -> str:
    """A file name for every system, ending in `.pps`."""
    text = re.sub(r"[^A-Za-z0-9_.+-]+", "-", words.clean(name).removesuffix(".pps")).strip("-.")
    return f"{text[:120] or 'set'}.pps"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == math.floor(value) else repr(float(value))


def _text(line: str) -> str:
    """A line with Markdown and HTML escaped."""
    return escape(words.clean(line), quote=False)


def _label(line: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", _text(line))
