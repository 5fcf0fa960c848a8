"""Numbers as people read them, and a sentence for everything the service can find."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import assert_never

from netbisect.bisect.model import (
    Confirmed,
    Culprit,
    Drift,
    Effect,
    Finding,
    Measured,
    NightDone,
    NotConfirmed,
    NotReproduced,
    Profiled,
    Several,
    Suspects,
    Unfinished,
)
from netbisect.bisect.states import AlertKind, AlertState

Name = Callable[[str], str]
"""From a revision or a scenario to what people call it."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TENTHS = 10
"""Seconds below which tenths are told."""
_ALMOST_SURE = 0.999
"""No measurement is certain, so nothing is called more certain than this."""
_RARE = 1e-6
_UNKNOWN = math.log(100)
"""An interval that ends at a hundredfold says nothing."""


def clean(text: str) -> str:
    """One line that can be shown anywhere: no control characters, no text direction tricks."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(map(_plain, text))
    return " ".join(text.split())


def block(text: str) -> str:
    """The same for text of several lines, whose tabs stay."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(
        "\t".join("".join(map(_plain, part)) for part in line.split("\t")) for line in lines
    )


def in_xml(text: str) -> str:
    """One line that XML can hold, which markup in it is still to be escaped for."""
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


def count(number: int, noun: str) -> str:
    """`1 boot`, `1,200 boots`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listing(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def pps(value: float) -> str:
    """Packets per second with about as many digits as a boot is worth: `1.488 Mpps`."""
    text = f"{value:.0f} pps"
    for unit, scale, digits in (("kpps", 1e3, 3), ("Mpps", 1e6, 4)):
        if float(text.split(maxsplit=1)[0]) < 1000:  # noqa: PLR2004 - a step of the prefixes
            break
        rounded = float(f"{value / scale:.{digits}g}")
        text = f"{rounded:.{max(digits - len(str(int(rounded))), 0)}f} {unit}"
    return text


def percent(ln_ratio: float) -> str:
    """An ln ratio as a signed percentage: `-10.9 %`."""
    value = _hundredths(ln_ratio)
    return f"{_signed(value, min(_digits(value), 1))} %"


def change(effect: Effect) -> str:
    """An effect with its interval: `-10.9 % (-12.1 to -9.7)`."""
    value = _hundredths(effect.ln_ratio)
    if not (abs(effect.low) < _UNKNOWN and abs(effect.high) < _UNKNOWN):
        return f"{_signed(value, _digits(value))} % (no interval)"
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


def direction(effect: Effect) -> str:
    """What the bad side is, in a word."""
    return "slower" if effect.ln_ratio < 0 else "faster"


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
    """As `duration`, but with tenths below ten seconds: `4.2 s`."""
    return f"{seconds:.1f} s" if seconds < _TENTHS else duration(seconds)


def day(at: float) -> str:
    """The date in UTC, `2026-03-01`."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d")


def moment(at: float) -> str:
    """Date and time, `2026-03-01 14:05 UTC`."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def certainty(chance: float) -> str:
    """A chance as a percentage, which is never all and never nothing."""
    if chance > _ALMOST_SURE:
        return f"more than {100 * _ALMOST_SURE:.1f} %"
    if chance < 1 - _ALMOST_SURE:
        return "less than 0.1 %"
    return f"{100 * chance:.1f} %"


def odds(p: float) -> str:
    """How often chance alone shows as much, for a p-value: `about once in 3,000 times`."""
    if p < _RARE:
        return "less than once in a million times"
    if p > 0.1:  # noqa: PLR2004 - one in ten and more is better said as so many of 100
        return f"about {100 * p:.0f} times in 100"
    times = 1 / p
    step = 10 ** int(math.log10(times))
    return f"about once in {max(round(times / step) * step, 1):,} times"


def boots(effect: Effect) -> str:
    """How many boots an effect rests on, `12 + 12 boots`."""
    return f"{effect.good_boots} + {effect.bad_boots} boots"


def reason(why: str) -> str:
    """A reason as the tail of a sentence that we end ourselves."""
    return clean(why).rstrip(".") or "no reason was recorded"


_KINDS = {
    AlertKind.DROP: "a drop",
    AlertKind.IMPROVEMENT: "an improvement",
    AlertKind.MODES: "a change of how often boots are slow",
    AlertKind.DRIFT: "a slow drift",
}
_STATES = {
    AlertState.CANDIDATE: "seen once, and not measured again yet",
    AlertState.CONFIRMING: "being measured again",
    AlertState.OPEN: "confirmed",
    AlertState.BISECTING: "confirmed, and its commit is searched for",
    AlertState.CULPRIT_FOUND: "confirmed, and its commit is known",
    AlertState.NO_CULPRIT: "confirmed, and no commit could be named",
    AlertState.ACKNOWLEDGED: "known and accepted; the level after it is the baseline now",
    AlertState.MUTED: "muted",
    AlertState.REOPENED: "there again",
    AlertState.FIXED: "over; the level is back",
    AlertState.INVALID: "called invalid; there was no such change",
    AlertState.INFRA: "called the lab's own; the code did not change the level",
    AlertState.WITHDRAWN: "withdrawn; measured again, it was not there",
    AlertState.MERGED: "the same event as an earlier alert",
}


def kind(what: AlertKind) -> str:
    """What changed: `a drop`."""
    return _KINDS[what]


def state(now: AlertState, *, until: float | None = None, into: int | None = None) -> str:
    """How far an alert has come, as the end of "It is ...".

    Args:
        now: Its state.
        until: For a muted alert, when that ends.
        into: For a merged alert, the earlier one.
    """
    text = _STATES[now]
    if until is not None:
        text += f" until {day(until)}"
    if into is not None:
        text += f", alert {into}"
    return text


def sentence(finding: Finding, label: Name, title: Name) -> str:  # noqa: C901 - one for every ending
    """What was found, in one or two sentences.

    Args:
        finding: any answer to any question.
        label: names revisions.
        title: names scenarios.
    """
    match finding:
        case NightDone(boots=number):
            text = f"Measured as often as asked: {count(number, 'boot')}."
        case Confirmed(effects=effects):
            text = f"Measured again in turns, the difference is still there{_lead(effects, title)}."
        case NotConfirmed(why=why):
            text = f"Measured again in turns, the difference did not come back: {reason(why)}."
        case Culprit():
            text = _culprit(finding, label, title)
        case Several(culprits=culprits):
            told = [_culprit(culprit, label, title) for culprit in culprits]
            text = " ".join([f"There are {len(culprits)} such commits.", *told])
        case Drift(why=why, belief=belief):
            text = (
                "The level changed bit by bit along the range, with a certainty of "
                f"{certainty(belief.drift)}: {reason(why)}. No commit is named."
            )
        case Suspects(revisions=revisions, why=why):
            text = (
                f"One of {count(len(revisions), 'commit')} made the change, and measuring cannot "
                f"tell which: {reason(why)}."
            )
        case NotReproduced(why=why, belief=belief):
            text = (
                "No commit in this range made a difference, with a certainty of "
                f"{certainty(belief.none)}: {reason(why)}."
            )
        case Profiled(revisions=revisions):
            text = f"There is a profile of {listing([label(one) for one in revisions])}."
        case Measured(held=held):
            effects = tuple(effect for one in held for effect in one.effects)
            text = f"{count(len(held) + 1, 'kernel')} side by side{_lead(effects, title)}."
        case Unfinished(why=why):
            text = f"The search ended without an answer: {reason(why)}. No commit is named."
        case _:
            assert_never(finding)
    return text


def _lead(effects: tuple[Effect, ...], title: Name) -> str:
    lead = next(iter(effects), None)
    return f": {title(lead.scenario)} {change(lead)}, {boots(lead)}" if lead else ""


def _culprit(finding: Culprit, label: Name, title: Name) -> str:
    lead = finding.effects[0]
    chance = max(finding.chance, finding.belief.chances[finding.revision])
    return (
        f"Commit {label(finding.revision)} made {title(lead.scenario)} {direction(lead)}: "
        f"{change(lead)}. It was verified against its parent {label(finding.parent)} by fresh "
        f"boots in turns, {boots(lead)}. Certainty that it is this commit: {certainty(chance)}."
    )
