"""Status as text."""

from __future__ import annotations

from collections.abc import Iterator

from netbisect.bisect.model.alert_state import AlertKind
from netbisect.reports.model.types import HASH_LENGTH, AlertSummary, StatusDocument
from netbisect.reports.render import words


def as_text(status: StatusDocument) -> str:
    """Open jobs, and the alerts by the action that they need."""
    return "\n".join(_lines(status))


def _lines(status: StatusDocument) -> Iterator[str]:
    yield "Queue:" if status.jobs else "Queue empty."
    for one in status.jobs:
        text = words.clean(
            f"{one.kind} {one.id} on {one.testbed}, {one.branch}: {one.now or 'waiting'}"
        )
        yield f"  {text}"
    if status.quarantines:
        yield "In quarantine:"
    for held in status.quarantines:
        yield f"  {held.testbed}, since {words.day(held.since)}: {words.clean(held.why)}"
    standing = [one for one in status.alerts if one.standing]
    active = [one for one in standing if one.state.active]
    drops = [one for one in active if one.kind is AlertKind.DROP]
    groups = (
        ("Confirmed drops:", drops),
        ("Other open changes:", [one for one in active if one not in drops]),
        ("Known or muted:", [one for one in standing if not one.state.active]),
        ("Closed:", [one for one in status.alerts if not one.standing]),
    )
    if not drops:
        yield "No open drops."
    for head, alerts in groups:
        if alerts:
            yield head
            yield from map(_alert, alerts)


def _alert(one: AlertSummary) -> str:
    culprit = f", commit {one.culprit[:HASH_LENGTH]}" if one.culprit else ""
    change = (
        words.percent(one.ln_ratio, one.lead) if one.ln_ratio is not None else words.kind(one.kind)
    )
    place = words.clean(f"{one.branch} on {one.testbed}, {one.lead}")
    return f"  alert {one.id}, {words.day(one.since)}: {place} {change}, {one.state.value}{culprit}"
