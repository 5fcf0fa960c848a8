"""A search with several layouts per revision, in a real master with a scripted lab."""

from __future__ import annotations

import math

import pytest
from ledger_facts import bisect_job, comparison
from real_master import RealMaster, case

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.results import Culprit
from netbisect.store.db.records import JobRecord

LINE = [f"{number:040x}" for number in range(6)]
CULPRIT, LAYOUTS = 3, 8
OFFSETS = (0.011, -0.016, 0.004, 0.013, -0.009, -0.002, 0.017, -0.013, 0.006, -0.011, 0.009)
"""Offsets of images as ratios, used in turn."""


class LinkOrder(RealMaster):
    """Layouts of one revision have different rates."""

    def add_search(self) -> JobRecord:
        script: dict[str, dict[str, object]] = {}
        for place, revision in enumerate(LINE):
            level = 950_000 * (0.95 if place >= CULPRIT else 1)
            for layout in range(LAYOUTS + 1):
                offset = OFFSETS[(7 * place + 3 * layout) % len(OFFSETS)]
                name = f"{revision}#{layout}" if layout else revision
                script[name] = {"pps": level * (1 + offset)}
        self.script(script)
        noise = Noise(boot=0.004, image=0.012)
        job = bisect_job(LINE, math.log(0.95), noise, layouts=LAYOUTS)
        return self.ledger.jobs.add(job, key="bisect", priority=200)

    @pytest.mark.long
    @case
    async def test_culprit_is_named_from_several_layouts(self) -> None:
        """Each layout is built once, booted under its own name, and not used by other jobs.

        The single builder prefetches nothing.
        """
        await self.start()
        record = await self.closed(self.add_search())
        calls = self.calls()
        built = [one.split()[1] for one in calls if one.startswith("build")]
        booted = {one.split()[1] for one in calls if one.startswith("trial")}
        relinked = {name for name in booted if "#" in name}

        assert isinstance(record.result, Culprit)
        assert record.result.revision == LINE[CULPRIT]
        assert {f"{LINE[CULPRIT]}#1", f"{LINE[CULPRIT - 1]}#1"} <= relinked
        assert len(built) == len(set(built))
        names = [buildset["external_idstring"] for buildset in await self.buildsets()]
        assert not [name for name in names if "ahead" in name]
        ends = (LINE[CULPRIT - 1], LINE[CULPRIT])
        other = self.ledger.jobs.add(comparison(*ends, "inet4-forwarding"), key="compare")
        seen = self.ledger.evidence.gather(other, config="GENERIC", arch="amd64")
        assert seen.observations
        assert {observation.layout for observation in seen.observations} == {0}


del RealMaster
