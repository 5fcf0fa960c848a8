"""Health of the detection as text: table of series, record and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from netbisect.bisect.detection.self_check import false_call_p
from netbisect.bisect.model.detection_results import (
    ALPHA,
    DAYS,
    GIVEN_UP_DAYS,
    MINISTAT_ALPHA,
    SCREEN_ALPHA_TWO_SIDED,
    STALE_DAYS,
    STALE_NIGHTS,
    SeriesReport,
)
from netbisect.reports.model import types
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table, wrap

_WIDE = 200
"""Columns of a table on a terminal: names of testbeds are not cut."""
_TEXT = 100
"""Columns of the text below it."""
_NAMED = 5
"""Series named in a warning."""
_ONE_SIDED = 0.05
_TAKEN_BACK = 0.1
"""Share of false alerts above which a warning is shown."""
_SMALL = 0.01
"""Smaller values of q are printed as less than this."""
_TOO_MANY = 0.01
"""Probability of as many false alerts at the promised rate."""


def as_text(health: types.HealthDocument) -> str:
    """Everything: the table, the record, and the warnings."""
    sections = [_series(health.series) if health.series else "No measurements."]
    sections += ["\n".join(wrap(line, width=_TEXT) for line in _record(health))]
    lines = [wrap(one, indent=2, width=_TEXT) for one in health.warnings]
    sections += ["\n".join(["Warnings:", *lines]) if lines else "No warnings."]
    return "\n\n".join(sections)


def with_warnings(health: types.HealthDocument, mails_given_up: int) -> types.HealthDocument:
    """The document with its warnings, one sentence each."""
    return replace(health, warnings=tuple(_warnings(health, mails_given_up)))


def _series(series: Sequence[SeriesReport]) -> str:
    """The table; of a series with one level there is nothing to tell yet."""
    settled = [one for one in series if one.health.levels > 1]
    new = len(series) - len(settled)
    lines = [_table(settled)] if settled else []
    if new:
        lines.append(f"{new:,} series with fewer than two levels not shown.")
    return "\n".join(lines)


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
                words.spread(its.boot_noise),
                words.spread(its.image_noise),
                f"{_share(its.modes.share)}, {words.drop(its.modes.gap)} slower"
                if its.modes
                else "",
                words.drop(its.smallest_drop),
                words.drop(its.smallest_lasting_drop),
                _q(one.q),
                words.percent(its.drift.ln_ratio, one.scenario) if its.drift else "",
                "" if one.days is None else f"{max(one.days, 0.0):.0f} d ago",
                _remarks(one),
            )
        )
    return table(rows, indent=0, width=_WIDE)


def _name(one: SeriesReport) -> str:
    return f"{one.testbed}/{one.scenario}/{one.branch}"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %".replace(".0 %", " %")


def _q(q: float | None) -> str:
    return "" if q is None else "< 0.01" if q < _SMALL else f"{q:.2f}"


def _remarks(one: SeriesReport) -> str:
    remarks = ["saturated"] if one.health.saturated else []
    return ", ".join([*remarks, "slow mode changed"] if one.health.modes_changed else remarks)


def _record(health: types.HealthDocument) -> Iterator[str]:
    record, halves, repeats = health.record, health.halves, health.repeats
    yield (
        f"Announced in {DAYS} days: {words.count(record.drops, 'drop')} and "
        f"{words.count(record.improvements, 'improvement')}; {record.taken_back} of "
        f"{words.count(record.announced, 'alert')} withdrawn or invalid."
    )
    again = ""
    if record.overlap is not None:
        again = (
            "; of the series flagged in one of two such successive nights, "
            f"{_share(record.overlap)} were flagged in both"
        )
    candidates = words.count(record.candidates, "candidate")
    yield f"Retests confirmed {record.confirmed} of {candidates}{again}."
    yield (
        f"Halves of the boots of {words.count(halves.images, 'image')} compared: {halves.called} "
        f"differ in a retest (expected: {_share(ALPHA)}), {halves.ministat} by ministat at 95 % "
        f"(expected: {_share(MINISTAT_ALPHA)})."
    )
    beyond = ""
    if repeats.night_sd is not None:
        beyond = f" These nights differ by {words.spread(repeats.night_sd)} beyond their boots."
    yield (
        f"{words.count(repeats.nights, 'repeated night')} of one kernel, per series: "
        f"the screen flags {repeats.screened} (expected: {_share(SCREEN_ALPHA_TWO_SIDED)}), "
        f"{repeats.retested} differ in a retest (expected: {_share(ALPHA)}).{beyond}"
    )


def _warnings(health: types.HealthDocument, mails_given_up: int) -> Iterator[str]:
    record, series = health.record, [one for one in health.series if one.nightly]
    if mails_given_up:
        yield (
            f"{words.count(mails_given_up, 'mail')} could not be sent and will not be tried "
            "again: `netbisect mails` lists the errors, `netbisect mails retry` sends a mail again."
        )
    if record.one_sided < _ONE_SIDED:
        yield (
            f"{words.count(record.drops, 'drop')} and "
            f"{words.count(record.improvements, 'improvement')} were announced in {DAYS} days; "
            "probability of this imbalance by chance: "
            f"{words.probability_by_chance(record.one_sided)}."
        )
    if record.taken_back > _TAKEN_BACK * record.announced:
        yield (
            f"Withdrawn or invalid: {record.taken_back} of "
            f"{words.count(record.announced, 'alert')} of the last {DAYS} days; at most "
            f"{_share(_TAKEN_BACK)} is acceptable."
        )
    yield from _against_itself(health)
    blind = [one for one in series if (one.health.smallest_drop or 0.0) > types.NOISY]
    if blind:
        yield (
            f"One night detects only drops of more than {types.NOISY_PERCENT} % in {_names(blind)}."
        )
    yield from _stale(series)
    saturated = [one for one in series if one.health.saturated]
    if saturated:
        yield f"The generator limits the rate, which hides small drops, in {_names(saturated)}."


def _against_itself(health: types.HealthDocument) -> Iterator[str]:
    halves, repeats = health.halves, health.repeats
    if false_call_p(halves.called, halves.images, ALPHA) < _TOO_MANY:
        yield (
            f"Halves of the boots of {halves.called} of {words.count(halves.images, 'image')} "
            f"differ in a retest; expected: {_share(ALPHA)}. Boots drift within a night, or are "
            "not independent."
        )
    for called, chance, what in (
        (repeats.screened, SCREEN_ALPHA_TWO_SIDED, "are flagged by the screen"),
        (repeats.retested, ALPHA, "differ in a retest"),
    ):
        if false_call_p(called, repeats.nights, chance) < _TOO_MANY:
            yield (
                f"{called} of {words.count(repeats.nights, 'repeated night')} of one kernel "
                f"{what}; expected: {_share(chance)}. The lab differs from night to night."
            )


def _stale(series: Sequence[SeriesReport]) -> Iterator[str]:
    late = [
        one for one in series if one.days is not None and STALE_DAYS < one.days <= GIVEN_UP_DAYS
    ]
    silent = {one.testbed for one in late} - {
        one.testbed for one in series if one.days is not None and one.days <= STALE_DAYS
    }
    for testbed in sorted(silent):
        days = min(one.days for one in late if one.testbed == testbed and one.days is not None)
        yield f"{testbed} has no measurements for {days:.0f} days."
    late = [one for one in late if one.testbed not in silent]
    if behind := [one for one in late if not one.up_to_date]:
        yield (
            f"No level for more than {STALE_NIGHTS} nights despite newer commits: {_names(behind)}."
        )
    if quiet := [one for one in late if one.up_to_date]:
        yield (
            f"No level for more than {STALE_NIGHTS} nights, and no newer commits: {_names(quiet)}."
        )


def _names(series: Sequence[SeriesReport]) -> str:
    names = [_name(one) for one in series]
    more = len(names) - _NAMED
    return words.listing([*names[:_NAMED], f"{more:,} more series"] if more > 0 else names)
