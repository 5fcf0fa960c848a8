"""What the watch knows of itself: a table of series, its record, and what is off, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from netbisect.bisect.health import DAYS, STALE_DAYS, STALE_NIGHTS, Health, SeriesReport
from netbisect.bisect.selfcheck import MINISTAT, RETEST_CHANCE, SCREEN_CHANCE, surprise
from netbisect.reports import documents, words
from netbisect.reports.plaintext import table, wrap

_WIDE = 200
"""Columns of a table on a terminal: names of testbeds are not cut."""
_TEXT = 100
"""Columns of what is said below it."""
_NAMED = 5
"""Series of which a warning tells the names."""
_ONE_SIDED = 0.05
_TAKEN_BACK = 0.1
"""Share of alerts, from which on they are not believed any more."""
_BLIND = 0.1
"""A drop that has to be seen, as a share."""
_GIVEN_UP = 91
"""Days after which a series is taken for one that is not measured any more."""
_SMALL = 0.01
"""q below which nobody cares how small it is."""
_TOO_MANY = 0.01
"""Chance of so many false calls, if no more are made than was promised."""


def as_text(health: Health) -> str:
    """Everything: the table, the record, and the warnings."""
    told = [_series(health.series) if health.series else "Nothing has been measured."]
    told += ["\n".join(wrap(line, width=_TEXT) for line in _record(health))]
    found = list(warnings(health))
    told += [_warnings(found) if found else "Nothing is off."]
    return "\n\n".join(told)


def document(health: Health) -> documents.Health:
    """As programs are told it; docs/health.md lists the keys."""
    return documents.Health(
        at=health.at,
        series=health.series,
        record=health.record,
        halves=health.halves,
        repeats=health.repeats,
        warnings=tuple(warnings(health)),
    )


# --------------------------------------------------------------------------------- the series


def _series(series: Sequence[SeriesReport]) -> str:
    """The table; of a series with one level there is nothing to tell yet."""
    told = [one for one in series if one.health.levels > 1]
    new = len(series) - len(told)
    said = [_table(told)] if told else []
    if new:
        said.append(f"{new:,} series with fewer than two levels not shown.")
    return "\n".join(said)


def _table(series: Sequence[SeriesReport]) -> str:
    head = ("series", "levels", "boots", "boot noise", "image noise", "slow boots")
    rows = [(*head, "sees 1 night", "5 nights", "q", "drift", "last", "")]
    for one in series:
        its = one.health
        rows.append(
            (
                _name(one),
                f"{its.levels:,}",
                f"{its.boots:,}",
                _noise(its.boot_noise),
                _noise(its.image_noise),
                f"{_share(its.modes.share)}, {_drop(its.modes.gap)} slower" if its.modes else "",
                _drop(its.smallest_drop),
                _drop(its.smallest_lasting_drop),
                _q(one.q),
                words.percent(its.drift.ln_ratio) if its.drift else "",
                "" if one.days is None else f"{max(one.days, 0.0):.0f} d ago",
                _remarks(one),
            )
        )
    return table(rows, indent=0, width=_WIDE)


def _name(one: SeriesReport) -> str:
    return f"{one.testbed}/{one.scenario}/{one.branch}"


def _noise(sd: float | None) -> str:
    return "" if sd is None else f"{100 * sd:.2f} %"


def _drop(ln_ratio: float | None) -> str:
    return "" if ln_ratio is None else f"{-100 * math.expm1(-ln_ratio):.1f} %"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %".replace(".0 %", " %")


def _q(q: float | None) -> str:
    return "" if q is None else "< 0.01" if q < _SMALL else f"{q:.2f}"


def _remarks(one: SeriesReport) -> str:
    said = ["saturated"] if one.health.saturated else []
    return ", ".join([*said, "slow mode changed"] if one.health.modes_changed else said)


# --------------------------------------------------------------------------------- the record


def _record(health: Health) -> Iterator[str]:
    record, halves, repeats = health.record, health.halves, health.repeats
    yield (
        f"Announced in {DAYS} days: {words.count(record.drops, 'drop')} and "
        f"{words.count(record.improvements, 'improvement')}; {record.taken_back} of "
        f"{words.count(record.announced, 'alert')} withdrawn or called invalid."
    )
    again = ""
    if record.overlap is not None:
        again = (
            "; of the series suspicious in one of two such nights running, "
            f"{_share(record.overlap)} were so in both"
        )
    candidates = words.count(record.candidates, "candidate")
    yield f"Retests confirmed {record.confirmed} of {candidates}{again}."
    yield (
        f"Of {words.count(halves.images, 'image')}, one half of the boots against the other: a "
        f"retest would have called {halves.called} different (it may: {_share(RETEST_CHANCE)}), "
        f"ministat at 95 % {halves.ministat} ({_share(MINISTAT)})."
    )
    beyond = ""
    if repeats.night_sd is not None:
        beyond = f" Nights of one kernel differ by {_noise(repeats.night_sd)} beyond their boots."
    yield (
        f"Of {words.count(repeats.nights, 'night')} of a kernel measured before, series by series: "
        f"a screen would have called {repeats.screened} suspicious (it may: "
        f"{_share(SCREEN_CHANCE)}), a retest {repeats.retested} different "
        f"({_share(RETEST_CHANCE)}).{beyond}"
    )


# -------------------------------------------------------------------------------- what is off


def warnings(health: Health) -> Iterator[str]:
    """What is off, a sentence each."""
    record = health.record
    if record.one_sided < _ONE_SIDED:
        yield (
            f"{words.count(record.drops, 'drop')} and "
            f"{words.count(record.improvements, 'improvement')} were announced in {DAYS} days: "
            f"were both equally likely, so one-sided a record would come "
            f"{words.odds(record.one_sided)}."
        )
    if record.taken_back > _TAKEN_BACK * record.announced:
        yield (
            f"{record.taken_back} of {words.count(record.announced, 'alert')} of the last {DAYS} "
            f"days were withdrawn or called invalid: more than {_share(_TAKEN_BACK)} is too many "
            "to be believed."
        )
    yield from _against_itself(health)
    blind_from = -math.log1p(-_BLIND)
    blind = [one for one in health.series if (one.health.smallest_drop or 0.0) > blind_from]
    if blind:
        yield f"One night shows only drops of more than {_share(_BLIND)} in {_names(blind)}."
    yield from _stale(health.series)
    saturated = [one for one in health.series if one.health.saturated]
    if saturated:
        yield (
            "The generator sends no more than the router forwards, so that small drops stay "
            f"hidden, in {_names(saturated)}."
        )


def _against_itself(health: Health) -> Iterator[str]:
    halves, repeats = health.halves, health.repeats
    if surprise(halves.called, halves.images, RETEST_CHANCE) < _TOO_MANY:
        yield (
            f"A retest would have called {halves.called} of {words.count(halves.images, 'image')} "
            f"different from themselves, where it may call {_share(RETEST_CHANCE)}: boots drift "
            "within a night, or are not independent."
        )
    for called, chance, who, what in (
        (repeats.screened, SCREEN_CHANCE, "A screen", "suspicious"),
        (repeats.retested, RETEST_CHANCE, "A retest", "different"),
    ):
        if surprise(called, repeats.nights, chance) < _TOO_MANY:
            yield (
                f"{who} would have called {called} of {words.count(repeats.nights, 'night')} of a "
                f"kernel measured before {what}, where it may call {_share(chance)}: the lab "
                "differs from night to night."
            )


def _stale(series: Sequence[SeriesReport]) -> Iterator[str]:
    late = [one for one in series if one.days is not None and STALE_DAYS < one.days <= _GIVEN_UP]
    silent = {one.testbed for one in late} - {
        one.testbed for one in series if one.days is not None and one.days <= STALE_DAYS
    }
    for testbed in sorted(silent):
        days = min(one.days for one in late if one.testbed == testbed and one.days is not None)
        yield f"{testbed} has measured nothing for {days:.0f} days."
    late = [one for one in late if one.testbed not in silent]
    if behind := [one for one in late if not one.up_to_date]:
        yield (
            f"No level for more than {STALE_NIGHTS} nights, though there are newer commits: "
            f"{_names(behind)}."
        )
    if quiet := [one for one in late if one.up_to_date]:
        yield (
            f"No level for more than {STALE_NIGHTS} nights, as nothing newer is known of the "
            f"branch: {_names(quiet)}."
        )


def _names(series: Sequence[SeriesReport]) -> str:
    names = [_name(one) for one in series]
    more = len(names) - _NAMED
    return words.listing([*names[:_NAMED], f"{more:,} more series"] if more > 0 else names)


def _warnings(found: Iterable[str]) -> str:
    lines = [wrap(sentence, indent=2, width=_TEXT) for sentence in found]
    return "\n".join(["What is off:", *lines])
