"""Metrics in the text format 0.0.4 of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MEDIA_TYPE = "text/plain; version=0.0.4"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, with a value for each combination of labels."""

    name: str
    help: str
    """A sentence."""
    values: Mapping[tuple[str, ...], float]
    """By the values of the labels."""
    labels: Sequence[str] = ()
    kind: str = "gauge"
    """`counter` for values that only grow."""


def text(metrics: Iterable[Metric]) -> str:
    """The text of the metrics; one without values has only its name.

    https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    lines = []
    for one in metrics:
        help_text = one.help.replace("\\", "\\\\").replace("\n", "\\n")
        lines += [f"# HELP {one.name} {help_text}", f"# TYPE {one.name} {one.kind}"]
        for key, value in sorted(one.values.items()):
            pairs = zip(one.labels, key, strict=True)
            named = ",".join(f'{label}="{_escaped(name)}"' for label, name in pairs)
            lines.append(f"{one.name}{{{named}}} {value!r}" if named else f"{one.name} {value!r}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
