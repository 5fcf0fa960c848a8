"""The change of an alert: the effects that every list, page, mail and document shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from netbisect.bisect.model.results import Culprit, Effect, Result


class ChangeBasis(StrEnum):
    """Measurements behind a change."""

    VERIFIED = "verified"
    """Interleaved boots of the culprit and its parent."""
    RETEST = "retest"
    """Interleaved boots of both ends."""
    SCREEN = "screen"
    """Nightly boots."""


@dataclass(frozen=True, slots=True)
class AlertChange:
    """The change of an alert."""

    basis: ChangeBasis
    effects: tuple[Effect, ...]
    """Leading scenario first; empty without a retest."""


def change_of(announced: Sequence[Effect], search: Result | None = None) -> AlertChange:
    """The best measurement of a change: the verification, or else the retest.

    Args:
        announced: Effects with which the alert was announced, leading scenario first.
        search: Result of the search for its culprit. The culprits of several share the change, so
            that the retest of both ends remains.
    """
    if isinstance(search, Culprit):
        leads = {one.scenario for one in announced[:1] or search.effects}
        verified = sorted(search.effects, key=lambda one: one.scenario not in leads)
        if verified and verified[0].scenario in leads:
            return AlertChange(ChangeBasis.VERIFIED, tuple(verified))
    return AlertChange(ChangeBasis.RETEST if announced else ChangeBasis.SCREEN, tuple(announced))
