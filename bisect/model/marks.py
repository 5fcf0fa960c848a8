"""Statements of users about commits of a search."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated


class MarkVerdict(StrEnum):
    """What a user says about a commit."""

    GOOD = "good"
    """It has the level of the good end."""
    BAD = "bad"
    """It has the level of the bad end."""
    SKIP = "skip"
    """It must not be measured."""
    NONE = "none"
    """Nothing: withdraws an earlier mark."""


@dataclass(frozen=True, slots=True)
class CommitMark:
    """A statement about a commit; the last one of a commit counts."""

    revision: str
    verdict: MarkVerdict
    why: str
    who: str
    at: Annotated[float, "Seconds since the epoch, UTC."]

    def __str__(self) -> str:
        """Such as "marked good by ann: the change is in another driver"."""
        text = "unmarked" if self.verdict is MarkVerdict.NONE else f"marked {self.verdict.value}"
        return f"{text} by {self.who}: {self.why}"
