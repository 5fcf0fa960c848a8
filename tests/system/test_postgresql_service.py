"""The service on PostgreSQL with lost connections."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from ledger_facts import bisect_job
from real_master import RealMaster, case
from twisted.internet import defer, reactor, task, threads

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.results import Culprit, NightlyResult
from netbisect.store.ledger import open_ledger

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("postgresql")]

LINE = [f"{number:040x}" for number in range(4)]
CULPRIT, FAST, SLOW = 2, 950_000, 855_000
_CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = 'ledger' AND application_name != 'look'
"""


class OnPostgresql(RealMaster):
    """The ledger is on PostgreSQL."""

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: Any, postgresql_url: str) -> None:
        self.cluster = cluster
        self.database = postgresql_url

    def setUp(self) -> Any:
        done = super().setUp()
        self.ledger.engine.dispose()
        self.ledger = open_ledger(f"{self.database}&application_name=look")
        return done

    async def cut_connections(self) -> int:
        """Ends all connections after each new event, with a delay of 0 to 40 ms."""
        cuts, seen, self.over = 0, 0, False
        while not self.over:
            if (last := self.ledger.events.last()) > seen:
                seen, cuts = last, cuts + 1
                await task.deferLater(reactor, 0.01 * (cuts % 5))
                await threads.deferToThread(self.cluster.do, _CUT)
            await task.deferLater(reactor, 0.02)
        return cuts

    @case
    async def test_night_and_search_survive_lost_connections(self) -> None:
        """Each trial runs once, and both jobs end with a result."""
        self.script({one: {"pps": SLOW if n >= CULPRIT else FAST} for n, one in enumerate(LINE)})
        await self.start()
        cutting = defer.ensureDeferred(self.cut_connections())
        job = bisect_job(LINE, math.log(SLOW / FAST), Noise(boot=0.004))
        night = await self.closed(self.add_night(LINE[-1], boots=1))
        searched = await self.closed(self.ledger.jobs.add(job, key="bisect", priority=200))
        self.over = True
        assert await cutting > 10

        assert night.result == NightlyResult(1)
        assert isinstance(searched.result, Culprit)
        assert searched.result.revision == LINE[CULPRIT]
        ordered = [*self.ledger.actions.of_job(night.id), *self.ledger.actions.of_job(searched.id)]
        assert {(str(one.outcome), one.attempt) for one in ordered} == {("ok", 1)}
        trials = Counter(one.revision for one in ordered if one.stage == "trial")
        calls = Counter(self.calls())
        assert trials == {
            call.split()[1]: times for call, times in calls.items() if call.startswith("trial")
        }
