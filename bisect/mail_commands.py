"""Commands in replies to the mails about an alert, such as `mute 14d` on a line of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from netbisect.bisect.model.alert_state import AlertState

_TEXT_MAX = 100_000
"""Characters of a reply that are read."""
WHY_MAX = 500
"""Longest reason."""
_DAYS_MAX = 366
"""Longest mute."""
_COMMANDS = {
    AlertState.ACKNOWLEDGED: re.compile(r"ack(?: (?P<why>.+))?", re.IGNORECASE),
    AlertState.MUTED: re.compile(r"mute (?P<days>[0-9]{1,3})d(?: (?P<why>.+))?", re.IGNORECASE),
    AlertState.FIXED: re.compile(r"(?P<why>fixed by [0-9a-f]{7,40})", re.IGNORECASE),
    AlertState.INVALID: re.compile(r"invalid (?P<why>.+)", re.IGNORECASE),
    AlertState.REOPENED: re.compile(r"reopen (?P<why>.+)", re.IGNORECASE),
}
_END = re.compile(r"--|-+ ?Original Message ?-+|_{10,}|From: .*")
"""Begins a signature, or the copy of a mail that is not marked as quoted."""


class MailCommandError(ValueError):
    """A reply is no command; the message says why."""


@dataclass(frozen=True, slots=True)
class MailCommand:
    """A change of an alert that a reply asks for."""

    state: AlertState
    why: str
    days: int = 0
    """Days of a mute."""


def parse(text: str) -> MailCommand:
    """The command in the text of a reply, without quoted lines and the signature.

    Raises:
        MailCommandError: There is none, or more than one.
    """
    found = dict.fromkeys(one for line in _own_lines(text) if (one := _command(line)))
    if len(found) != 1:
        what = "several" if found else "none"
        raise MailCommandError(f"expected one command on a line of its own, found {what}")
    [command] = found
    if command.state is AlertState.MUTED and not 1 <= command.days <= _DAYS_MAX:
        raise MailCommandError(f"mute {command.days}d: expected 1 to {_DAYS_MAX} days")
    return command


def _own_lines(text: str) -> Iterator[str]:
    for line in text[:_TEXT_MAX].splitlines():
        own = " ".join(line.split())
        if _END.fullmatch(own):
            return
        if not own.startswith(">"):
            yield own


def _command(line: str) -> MailCommand | None:
    for state, form in _COMMANDS.items():
        if found := form.fullmatch(line):
            parts = found.groupdict()
            why = (parts["why"] or "by mail, without a reason")[:WHY_MAX]
            return MailCommand(state, why, int(parts.get("days") or 0))
    return None
