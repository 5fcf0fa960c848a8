"""What was measured in each series, kept beside the site from one run to the next.

To read a thousand nights again because of one more takes longer than all else. What is kept is
never needed: where it is not there, damaged, of another program or of another ledger, all is read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

from netbisect.bisect.model import Level, Noise
from netbisect.steps.site_touched import measured_in
from netbisect.store.lookup import SeriesName
from netbisect.store.marks import Marks
from netbisect.store.measured import ByConditions, Measured


class Kept:
    """What was measured, in a file for each testbed and scenario."""

    def __init__(self, folder: Path, made_by: str, mark: str, ledger: Marks) -> None:
        """Nothing is read yet.

        Args:
            folder: Where the files are.
            made_by: Of the program and its settings.
            mark: Of the ledger, before anything was read of it.
            ledger: That knows what happened since earlier marks.
        """
        self._folder = folder
        self._made_by = made_by
        self._mark = mark
        self._ledger = ledger
        self._news: dict[str, Collection[str] | None] = {}

    def recall(self, testbed: str, scenario: str) -> tuple[ByConditions, Collection[str]] | None:
        """As `Memory` says."""
        told = self._read(testbed, scenario)
        news = None if told is None else self._since(told["mark"])
        if told is None or news is None:
            return None
        return {name: _unpacked(one) for name, one in told["conditions"].items()}, news

    def keep(self, testbed: str, scenario: str, found: ByConditions) -> None:
        """As `Memory` says."""
        conditions = {name: _packed(one) for name, one in found.items()}
        self._write({"mark": self._mark, "conditions": conditions}, testbed, scenario)

    def noise(self, name: SeriesName, levels: Sequence[Level]) -> Noise | None:
        """How exactly these levels of a series scatter; None where it is not known."""
        told = self._read(*astuple(name))
        return None if told is None or told["levels"] != _key(levels) else Noise(**told["noise"])

    def keep_noise(self, name: SeriesName, levels: Sequence[Level], noise: Noise) -> None:
        """Takes how levels scatter: when there is one more, that is what it is judged by."""
        self._write({"levels": _key(levels), "noise": asdict(noise)}, *astuple(name))

    def _read(self, *place: str) -> dict[str, Any] | None:
        """What was written of a series, if nothing has happened to it."""
        try:
            digest, _, text = self._file(place).read_bytes().partition(b"\n")
        except OSError:
            return None
        if digest != _digest(text):
            return None
        told: dict[str, Any] = json.loads(text)
        return told if told["of"] == [self._made_by, *place] else None

    def _write(self, told: Mapping[str, Any], *place: str) -> None:
        """Never half a file, whoever else writes it."""
        text = json.dumps({"of": [self._made_by, *place], **told}, separators=(",", ":")).encode()
        path = self._file(place)
        work = path.with_suffix(f".{os.getpid()}")
        work.write_bytes(b"%s\n%s" % (_digest(text), text))
        work.replace(path)

    def _file(self, place: Sequence[str]) -> Path:
        return (
            self._folder / hashlib.sha256("\n".join(place).encode("utf-8", "replace")).hexdigest()
        )

    def _since(self, mark: str) -> Collection[str] | None:
        """Revisions of which there are facts that are newer than a mark; None: nobody knows."""
        if mark not in self._news:
            self._news[mark] = measured_in(self._ledger.events_after(mark))
        return self._news[mark]


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _key(levels: Sequence[Level]) -> str:
    """Of all that the noise of levels depends on."""
    ln_pps = [x for one in levels for x in one.ln_pps]
    found = hashlib.sha256(struct.pack(f"<{len(ln_pps)}d", *ln_pps))
    found.update(repr([len(one.ln_pps) for one in levels]).encode())
    found.update("\n".join([one.identity for one in levels]).encode("utf-8", "replace"))
    found.update(bytes([one.saturated for one in levels]))
    return found.hexdigest()


def _packed(found: Measured) -> dict[str, Any]:
    """Columns: as JSON has them, numbers are read ten times as slowly."""
    levels = found.levels
    return {
        "latest": found.latest,
        "revisions": [one.revision for one in levels],
        "identities": [one.identity for one in levels],
        "saturated": [int(one.saturated) for one in levels],
        "boots": [len(one.ln_pps) for one in levels],
        "at": _text([one.at for one in levels]),
        "ln_pps": _text([x for one in levels for x in one.ln_pps]),
    }


def _unpacked(told: Mapping[str, Any]) -> Measured:
    ln_pps = _numbers(told["ln_pps"])
    edges = [0]
    for boots in told["boots"]:
        edges.append(edges[-1] + boots)
    columns = (
        told["revisions"],
        told["identities"],
        _numbers(told["at"]),
        [ln_pps[start:stop] for start, stop in pairwise(edges)],
        map(bool, told["saturated"]),
    )
    return Measured(told["latest"], tuple(map(Level, *columns)))


def _text(numbers: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}d", *numbers)).decode()


def _numbers(text: str) -> tuple[float, ...]:
    content = base64.b64decode(text)
    return struct.unpack(f"<{len(content) // 8}d", content)
