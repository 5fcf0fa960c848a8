"""Formatting of numbers, times and results."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar, assert_never

from netbisect.bisect.alert_lifecycle import AlertStatus
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.detection_results import MIN_EFFECT
from netbisect.bisect.model.evidence import Cost
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Drift,
    Effect,
    MeasureResult,
    NightlyResult,
    NotConfirmed,
    NotReproduced,
    Posterior,
    ProfileResult,
    Result,
    SeveralCulprits,
    Suspects,
    Unfinished,
)
from netbisect.reports.model.types import AlertDocument, AlertSummary, Difference

Name = Callable[[str], str]
"""Returns the display name of a revision or a scenario."""
Measured: TypeAlias = Effect | Difference
"""A change in a scenario, with its interval as ln ratios."""
_Measured = TypeVar("_Measured", Effect, Difference)

FIRST_TIME = 1e9
"""Least time in seconds since the epoch; imported levels have smaller numbers instead of times."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TENTHS = 10
"""Seconds below which tenths are shown."""
_ALMOST_SURE = 0.999
"""Maximum probability shown: no measurement is certain."""
_RARE = 1e-6
_UNKNOWN = math.log(100)
"""Intervals and increases beyond a factor of 100 are not shown."""


def clean(text: str) -> str:
    """One line without control characters and without changes of text direction."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(map(_plain, text))
    return " ".join(text.split())


def cleaned(rows: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """The cells of a table, each as by `clean`."""
    return [tuple(map(clean, row)) for row in rows]


def block(text: str) -> str:
    """As `clean`, for several lines; tabs stay."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(
        "\t".join("".join(map(_plain, part)) for part in line.split("\t")) for line in lines
    )


def in_xml(text: str) -> str:
    """One line of valid XML characters; markup is not escaped."""
    return clean(text).translate(
        {0xFFFE: "\N{REPLACEMENT CHARACTER}", 0xFFFF: "\N{REPLACEMENT CHARACTER}"}
    )


def _plain(character: str) -> str:
    match unicodedata.category(character):
        case "Cc":
            return " "
        case "Cf":
            return ""
        case "Cs":
            return "\N{REPLACEMENT CHARACTER}"
        case _:
            return character


def drop(ln_ratio: float | None) -> str:
    """The size of a drop, given as a positive ln ratio: `2.1 %`; "" for None."""
    return "" if ln_ratio is None else f"{-100 * math.expm1(-ln_ratio):.1f} %"


def spread(sd: float | None) -> str:
    """A standard deviation of ln numbers: `0.31 %`; "" for None."""
    return "" if sd is None else f"{100 * sd:.2f} %"


def count(number: int, noun: str) -> str:
    """`1 boot`, `1,200 boots`, `2 series`."""
    return f"{number:,} {noun}{'' if number == 1 or noun.endswith('series') else 's'}"


def boots_of(done: int, most: int, *, estimated: bool) -> str:
    """`3 of 8 boots`, `3 of about 16 boots`, or `8 boots` if there are no more to come."""
    about = "about " if estimated else ""
    return f"{done:,} of {about}{count(most, 'boot')}" if done < most else count(done, "boot")


def listing(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def pps(value: float) -> str:
    """Packets per second with about as many digits as a boot is precise: `1.488 Mpps`."""
    text = f"{value:.0f} pps"
    for unit, scale, digits in (("kpps", 1e3, 3), ("Mpps", 1e6, 4)):
        if float(text.split(maxsplit=1)[0]) < 1000:  # noqa: PLR2004 - a step of the prefixes
            break
        rounded = float(f"{value / scale:.{digits}g}")
        text = f"{rounded:.{max(digits - len(str(int(rounded))), 0)}f} {unit}"
    return text


def number(value: float, series: str) -> str:
    """A number of a series with its unit: `1.488 Mpps`, `41.3 %`."""
    unit = metric_of(series).unit
    if unit == "pps":
        return pps(value)
    name, scale = scaled(value, unit)
    text = f"{value / scale:.4g}"
    return f"{f'{float(text):,.0f}' if abs(float(text)) >= _THOUSAND else text} {name}"


def scaled(value: float, unit: str) -> tuple[str, float]:
    """The unit with the SI prefix that suits a value, and by how much to divide it.

    Units such as ms and MB have a prefix already and are left alone.
    """
    prefix, scale = _prefix(value) if unit in _WITHOUT_PREFIX else ("", 1.0)
    return f"{prefix}{unit}", scale


def _prefix(value: float) -> tuple[str, float]:
    return next((one for one in _PREFIXES if abs(value) >= one[1]), ("", 1.0))


def plain(value: float) -> str:
    """A number without a unit: `970.97`, `31.34 M`, `2.478 µ`."""
    text = f"{value:.6g}"
    prefix, scale = _prefix(value)
    short = f"{value / scale:.6g} {prefix}".rstrip()
    return short if "e" in text and "e" not in short else text


def level(value: float, series: str) -> str:
    """As `number`, of a level."""
    return number(metric_of(series).number(value), series)


def percent(ln_ratio: float, series: str = "") -> str:
    """An ln ratio of levels as a signed percentage of the numbers: `-10.9 %`."""
    value = _hundredths(-ln_ratio if metric_of(series).lower else ln_ratio)
    return f"{_signed(value, min(_digits(value), 1))} %"


_THOUSAND = 1000
_WITHOUT_PREFIX = {"B", "B/s", "Hz", "J", "W", "bit", "bit/s", "packets/s", "pps", "s"}
_PREFIXES = (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9))


def change(effect: Measured) -> str:
    """An effect with its interval, in the numbers of its series: `-10.9 % (-12.1 to -9.7)`."""
    if metric_of(effect.scenario).lower:
        effect = Effect("", -effect.ln_ratio, -effect.high, -effect.low, 1.0, 0, 0)
    value = _hundredths(effect.ln_ratio)
    if not (abs(effect.low) < _UNKNOWN and abs(effect.high) < _UNKNOWN):
        more = "over " if effect.ln_ratio > _UNKNOWN else ""
        return f"{more}{_signed(value, _digits(value))} % (no interval)"
    low, high = _hundredths(effect.low), _hundredths(effect.high)
    digits = _digits(value, low, high)
    low_text, high_text = _signed(low, digits), _signed(high, digits)
    return f"{_signed(value, digits)} % ({low_text} to {high_text})"


def _hundredths(ln_ratio: float) -> float:
    return 100 * math.expm1(min(ln_ratio, _UNKNOWN))


def _digits(*values: float) -> int:
    largest = max(map(abs, values))
    return 2 if largest < 1 else 1 if largest < 100 else 0  # noqa: PLR2004 - places of a percentage


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text if text.strip("+-0.") else text[1:]


def direction(effect: Measured) -> str:
    """Direction of a change: `slower` or `faster`, of other metrics `worse` or `better`."""
    words = ("worse", "better") if metric_of(effect.scenario).name else ("slower", "faster")
    return words[effect.ln_ratio >= 0]


def opposite(effects: Sequence[_Measured]) -> _Measured | None:
    """The largest change against the leading one: a gain beside a drop, or a drop beside a gain.

    Its whole interval is beyond the least effect, so that an offset of an image is not reported.
    """
    sign = -1 if effects and effects[0].ln_ratio > 0 else 1
    clear = [one for one in effects if min(sign * one.low, sign * one.high) > MIN_EFFECT]
    return max(clear, key=lambda one: abs(one.ln_ratio), default=None)


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `2 h 05 min`, `3 d 04 h`."""
    if seconds < _MINUTE - 0.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE)
    if minutes * _MINUTE < _HOUR:
        return f"{minutes} min"
    if minutes * _MINUTE < _DAY:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / _HOUR)
    return f"{hours // 24} d {hours % 24:02d} h"


def elapsed(seconds: float) -> str:
    """As `duration`, with tenths below ten seconds: `4.2 s`."""
    return f"{seconds:.1f} s" if seconds < _TENTHS else duration(seconds)


def day(at: float) -> str:
    """The date in UTC, `2026-03-01`."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d")


def when(at: float) -> str:
    """As `day`; "no date" for imported data without times."""
    return day(at) if at >= FIRST_TIME else "no date"


def day_known(at: float | None) -> str:
    """As `day`; "no date" for a commit that is not in the tree."""
    return "no date" if at is None else day(at)


def moment(at: float) -> str:
    """Date and time, `2026-03-01 14:05 UTC`."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def certainty(chance: float) -> str:
    """A probability as a percentage, never 0 or 100 %."""
    if chance > _ALMOST_SURE:
        return f"more than {100 * _ALMOST_SURE:.1f} %"
    if chance < 1 - _ALMOST_SURE:
        return "less than 0.1 %"
    return f"{100 * chance:.1f} %"


def likeliest(held: Posterior, name: Name) -> str:
    """The most probable answer of a search: `n40-0a1b2c3d4e5f, 31.0 %`, `no change, 97.0 %`."""
    others = {"no change": held.none, "several commits": held.two, "a drift": held.drift}
    best, chance = max((held.chances | others).items(), key=lambda one: one[1])
    return f"{best if best in others else name(best)}, {certainty(chance)}"


def probability_by_chance(p: float | None) -> str:
    """A p-value: `1 in 3,000`, `34 %`, `below 1 in a million`."""
    if p is None:
        return "not known"
    if p < _RARE:
        return "below 1 in a million"
    if p > 0.1:  # noqa: PLR2004 - reads better as a percentage
        return f"{100 * p:.0f} %"
    times = 1 / p
    step = 10 ** int(math.log10(times))
    return f"1 in {max(round(times / step) * step, 1):,}"


def boots(effect: Measured) -> str:
    """Boots behind an effect, `12 + 12 boots`."""
    return f"{effect.good_boots} + {effect.bad_boots} boots"


def cost(spent: Cost) -> str:
    """What was spent: `1 kernel built, 8 boots, 32 runs, 17 min of lab time`."""
    return (
        f"{count(spent.builds, 'kernel')} built, {count(spent.boots, 'boot')}, "
        f"{count(spent.runs, 'run')}, {duration(spent.seconds)} of lab time"
    )


def reason(why: str) -> str:
    """A reason as the tail of a sentence, without its full stop."""
    return clean(why).rstrip(".") or "no reason recorded"


_KINDS = {
    AlertKind.DROP: "a drop",
    AlertKind.IMPROVEMENT: "an improvement",
    AlertKind.MODES: "a change in the share of slow boots",
    AlertKind.DRIFT: "a slow drift",
}
_STATES = {
    AlertState.CANDIDATE: "seen once, retest pending",
    AlertState.CONFIRMING: "being retested",
    AlertState.OPEN: "confirmed",
    AlertState.BISECTING: "confirmed, bisection running",
    AlertState.CULPRIT_FOUND: "confirmed, commit found",
    AlertState.NO_CULPRIT: "confirmed, no commit found",
    AlertState.ACKNOWLEDGED: "acknowledged; the new level is the baseline",
    AlertState.MUTED: "muted",
    AlertState.REOPENED: "reopened",
    AlertState.FIXED: "reported as fixed; it reopens if the change is measured again",
    AlertState.INVALID: "invalid; no such change",
    AlertState.INFRA: "caused by the lab, not by the code",
    AlertState.WITHDRAWN: "withdrawn; new measurements do not show it",
    AlertState.MERGED: "merged into an earlier alert",
}


def changed_conditions(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Differences between the conditions of two epochs, as `NAME: OLD → NEW; ...`."""
    names = [*before, *(name for name in after if name not in before)]
    changes = [
        f"{name}: {before.get(name, 'not recorded')} → {after.get(name, 'not recorded')}"
        for name in names
        if before.get(name) != after.get(name)
    ]
    return "; ".join(changes) or "not recorded"


def kind(what: AlertKind) -> str:
    """Kind of an alert: `a drop`."""
    return _KINDS[what]


def state(alert: AlertDocument | AlertSummary | AlertStatus) -> str:
    """State of an alert: `muted until 2026-12-31`."""
    recovered = alert.state is AlertState.FIXED and alert.recovery
    text = "fixed; the level is back" if recovered else _STATES[alert.state]
    if alert.muted_until is not None:
        text += f" until {day(alert.muted_until)}"
    if alert.merged_into is not None:
        text += f", alert {alert.merged_into}"
    return text


def sentence(result: Result, label: Name, title: Name) -> str:  # noqa: C901 - one for every ending
    """A result in one or two sentences; the functions name revisions and scenarios."""
    match result:
        case NightlyResult(boots=number):
            text = f"All requested boots were measured: {count(number, 'boot')}."
        case Confirmed(effects=effects):
            text = f"The comparison confirms a difference{_lead(effects, title)}."
        case NotConfirmed(why=why):
            text = f"The comparison does not confirm a difference: {reason(why)}."
        case Culprit():
            text = _culprit(result, label, title)
        case SeveralCulprits(culprits=culprits):
            sentences = [_culprit(culprit, label, title) for culprit in culprits]
            text = " ".join([f"The search found {len(culprits)} commits.", *sentences])
        case Drift(why=why, posterior=posterior):
            text = (
                "The level changed gradually along the range, probability "
                f"{certainty(posterior.drift)}: {reason(why)}. No commit is named."
            )
        case Suspects(revisions=revisions, why=why):
            text = (
                f"One of {count(len(revisions), 'commit')} caused the change; measurements cannot "
                f"separate them: {reason(why)}."
            )
        case NotReproduced(why=why, posterior=posterior):
            text = (
                "No commit in this range changed the level, probability "
                f"{certainty(posterior.none)}: {reason(why)}."
            )
        case ProfileResult(revisions=revisions):
            text = f"Profiled: {listing([label(one) for one in revisions])}."
        case MeasureResult(held=held):
            effects = tuple(effect for one in held for effect in one.effects)
            text = f"{count(len(held) + 1, 'kernel')} compared{_lead(effects, title)}."
        case Unfinished(why=why):
            text = f"There is no result: {reason(why)}."
        case _:
            assert_never(result)
    return text


def _lead(effects: tuple[Effect, ...], title: Name) -> str:
    lead = next(iter(effects), None)
    return f": {title(lead.scenario)} {change(lead)}, {boots(lead)}" if lead else ""


def _culprit(result: Culprit, label: Name, title: Name) -> str:
    lead, other = result.effects[0], opposite(result.effects)
    also = f", and {title(other.scenario)} {direction(other)}: {change(other)}" if other else ""
    chance = max(result.chance, result.posterior.chances[result.revision])
    return (
        f"Commit {label(result.revision)} made {title(lead.scenario)} {direction(lead)}: "
        f"{change(lead)}{also}. Verified against its parent {label(result.parent)} with "
        f"interleaved boots, {boots(lead)}. Probability that it is this commit: "
        f"{certainty(chance)}."
    )
