"""Who may do what: rights, and the people and programs that have them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Right(StrEnum):
    """What somebody may do; who has any of them may read."""

    READ = "read"
    """Look at everything but the audit log."""
    ASK = "ask"
    """Ask the lab, and cancel, resume and extend what one has asked for."""
    PATCH = "patch"
    """Have patches measured: code of anybody's runs in the kernels of the lab's machines then."""
    PRIORITY = "priority"
    """Come before the others."""
    ADMIN = "admin"
    """All of these, also with what others have asked for; the audit log; Buildbot's controls."""


RIGHTS = tuple(right.value for right in Right)


class RightError(Exception):
    """Somebody wants what is not theirs to have; the text says which right is missing."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who has shown who it is."""

    who: str
    rights: frozenset[Right]
    via: str
    """By which way: api, form."""
    origin: str
    """From where: an address of the network."""

    def may(self, right: Right) -> bool:
        """Whether that may be done."""
        if right is Right.READ:
            return bool(self.rights)
        return right in self.rights or Right.ADMIN in self.rights

    def need(self, right: Right, what: str) -> None:
        """Goes on when that may be done.

        Args:
            right: Which is needed.
            what: What for, as the beginning of a sentence.

        Raises:
            RightError: it may not.
        """
        if not self.may(right):
            raise RightError(f"{what} needs the right `{right.value}`, which {self.who} lacks")

    def need_own(self, who: str, what: str) -> None:
        """Goes on when something is theirs, and may be changed.

        Args:
            who: Whose it is.
            what: What is to be done, as the beginning of a sentence.

        Raises:
            RightError: it is somebody else's.
        """
        self.need(Right.ASK, what)
        if who != self.who:
            self.need(Right.ADMIN, f"{what} of {who}")


def rights_of(names: Collection[str]) -> frozenset[Right]:
    """The rights of these names.

    Raises:
        ValueError: one of them is none.
    """
    for name in names:
        if name not in RIGHTS:
            raise ValueError(f"there is no right {name!r}; {', '.join(RIGHTS)} would be right")
    return frozenset(map(Right, names))
