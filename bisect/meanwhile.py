"""What goes on in the laboratory while a search looks for its next move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from netbisect.bisect.model import Visit


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Builds and visits under way, and the testbed that has nothing to do."""

    building: Mapping[str, float] = field(default_factory=dict)
    """By `kernel_name`: seconds until it is built."""
    may_build: bool = True
    """Whether a kernel may be ordered that nobody waits for yet; not where that would keep the
    only builder from what the others will want."""
    testbed: str = ""
    """Which one is idle; empty where the testbed of the question is the only one."""
    under_way: tuple[Visit, ...] = ()
    """What the other testbeds are measuring, or wait to measure, the oldest first."""


class Wait(Enum):
    """Nothing is worth a boot here as long as others measure."""

    WAIT = "wait"


QUIET = Meanwhile()
"""Nothing."""
