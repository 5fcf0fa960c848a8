"""Two root partitions on a GPT disk, as booted by gptboot(8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

DISK = "ada0"


@dataclass
class DiskPartition:
    """A root partition."""

    index: int
    label: str
    folder: Path
    """Host folder of its files."""
    attributes: set[str] = field(default_factory=set)


def choose(partitions: Sequence[DiskPartition]) -> DiskPartition:
    """What gptboot starts now; it notes in the attributes that it has tried.

    First those with `bootonce` and `bootme`, which lose the latter; one with `bootonce` alone has
    failed before. Then those with `bootme`, then the first of all.
    """
    for one in partitions:
        if "bootonce" in one.attributes and "bootme" not in one.attributes:
            one.attributes = {"bootfailed"}
    for one in partitions:
        if "bootonce" in one.attributes:
            one.attributes.discard("bootme")
            return one
    return next((one for one in partitions if "bootme" in one.attributes), partitions[0])
