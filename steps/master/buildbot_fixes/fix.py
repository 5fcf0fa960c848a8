"""Fix: one replaced function of Buildbot."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fix:
    """A replacement for one function of Buildbot, made for one text of that function."""

    owner: Any
    """Module or class."""
    name: str
    digest: str
    """First 12 hexadecimal digits of the SHA-256 of the function's source."""
    original: Callable[..., Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "original", getattr(self.owner, self.name))

    def is_applicable(self) -> bool:
        """Whether Buildbot still has the function that the replacement was made for."""
        source = inspect.getsource(self.original)
        return hashlib.sha256(source.encode()).hexdigest().startswith(self.digest)

    def apply(self, replacement: Any) -> bool:
        """Replaces the function; False if Buildbot has another one."""
        applicable = self.is_applicable()
        if applicable:
            setattr(self.owner, self.name, replacement)
        return applicable
