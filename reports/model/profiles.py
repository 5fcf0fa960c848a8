"""Profiles of kernels with their stacks."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.bisect.model.entities import Profile
from netbisect.bisect.model.profile_stacks import Stacks


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A profile with its stacks."""

    profile: Profile
    stacks: Stacks


@dataclass(frozen=True, slots=True)
class ProfilePair:
    """Profiles of two kernels, or of one."""

    revisions: tuple[str, ...]
    """The earlier one first."""
    taken: tuple[StoredProfile, ...]
    """One for each revision, or none."""
    missing: str = ""
    """Reason for missing profiles."""
