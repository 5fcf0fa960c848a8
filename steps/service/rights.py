"""Access rights of people and programs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Right(StrEnum):
    """An access right; any of them includes READ."""

    READ = "read"
    """Read everything except the audit log."""
    ASK = "ask"
    """Submit requests; cancel, resume and extend one's own; change the state of alerts."""
    PATCH = "patch"
    """Request measurements of patches, which run as kernels on the lab's machines."""
    PRIORITY = "priority"
    """Use high priority."""
    ADMIN = "admin"
    """All rights, for all requests; the audit log; Buildbot's controls."""


RIGHTS = tuple(right.value for right in Right)


class MissingRightError(Exception):
    """The user lacks a right; the message names it."""


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated person or program."""

    name: str
    rights: frozenset[Right]
    via: str
    """Authentication path: api or form."""
    origin: str
    """Network address."""

    def has_right(self, right: Right) -> bool:
        if right is Right.READ:
            return bool(self.rights)
        return right in self.rights or Right.ADMIN in self.rights

    def require(self, right: Right, action: str) -> None:
        """Raises MissingRightError without this right; `action` is the subject of the message."""
        if not self.has_right(right):
            raise MissingRightError(
                f"{action} needs the right `{right.value}`, which {self.name} lacks"
            )

    def require_owner(self, owner: str, action: str) -> None:
        """Raises MissingRightError unless the user may change a request of `owner`."""
        self.require(Right.ASK, action)
        if owner != self.name:
            self.require(Right.ADMIN, f"{action} of {owner}")


def parse_rights(names: Collection[str]) -> frozenset[Right]:
    """Returns the rights with these names. Raises ValueError for an unknown one."""
    for name in names:
        if name not in RIGHTS:
            raise ValueError(f"unknown right {name!r}; expected one of {', '.join(RIGHTS)}")
    return frozenset(map(Right, names))
