"""The table of nightly detection in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import between

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
_DROPS = ("2", "3", "5", "10")


def table(rows: Sequence[dict[str, Any]], seed: int) -> list[str]:
    """Lines of Markdown: a table of all cases."""
    labs = max((row["labs"] for row in rows), default=0)
    lines = [
        f"Seeds {seed} to {seed + labs - 1}: {labs} labs of each case.",
        "",
        (
            "| case | rule | false alerts | 2 % | 3 % | 5 % | 10 % | delay (nights) "
            "| error (nights) | boots of retests |"
        ),
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        hits = " | ".join(f"{row['hits'].get(drop, float('nan')):.2f}" for drop in _DROPS)
        delay = "-" if row["delay_nights"] is None else f"{row['delay_nights']:.0f}"
        off = "-" if row["localisation_nights"] is None else f"{row['localisation_nights']:.2f}"
        lines.append(
            f"| `{row['case']}` | {row['engine']} | {row['false_alerts']:.2f} | {hits} | {delay} "
            f"| {off} | {row['retest_boots']:.0f} |"
        )
    return lines


def write(rows: Sequence[dict[str, Any]], seed: int) -> None:
    """Writes the table to the page."""
    PAGE.write_text(between(PAGE.read_text(), "detection", table(rows, seed)))
