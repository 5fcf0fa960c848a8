"""Data of a comparison in the form of netbenches' results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.reports.model.compared import ComparedScenario
from netbisect.reports.render.ministat import Variant


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """A flame graph."""

    name: str
    file: str
    svg: bytes


@dataclass(frozen=True, slots=True)
class Study:
    """A comparison with its texts."""

    title: str
    scenarios: Sequence[ComparedScenario]
    conditions: Sequence[str] = ()
    """Hardware, FreeBSD and traffic, a line each."""
    flame_graphs: Sequence[FlameGraph] = ()
    remarks: Sequence[str] = ()
    """Remarks on the conclusions, one sentence each."""
    variant: Variant = Variant.CURRENT
    width: int = 74
    """Columns of the plots of ministat."""
    confidence: float = 95.0
    """In percent, one of ministat's."""
