"""The clock opens nights; the poller shows what landed."""

from __future__ import annotations

import datetime as dt
import shutil

from real_master import RealMaster, case

from netbisect.bisect.model import Night
from netbisect.demo.tree.create import create
from netbisect.steps import watch


class Clock(RealMaster):
    """A real master whose clock is told that it is time."""

    def plant(self) -> str:
        shutil.rmtree(self.folder / "tree.git")
        return create(self.folder / "tree.git").revisions[8 - 1]

    @case
    async def test_a_night_begins_with_the_head_of_the_branch(self) -> None:
        """No build is started for it: a question is asked, and the conductor takes it up."""
        head = self.plant()
        nights = watch.nights(self.settings, self.lab)
        await self.start(nights)
        night = self.master.scheduler_manager.namedServices["night-main-c2558"]
        await night.startBuild()
        asked = self.ledger.question(1)

        assert asked.question == Night(
            "main", "c2558", head, ("inet4-forwarding",), self.settings.night.boots
        )
        await self.closed(asked)
        await night.startBuild()
        assert self.ledger.open_questions() == []

    @case
    async def test_a_branch_that_vanished_is_no_crash(self) -> None:
        """The next night is another night."""
        await self.start(watch.nights(self.settings, self.lab))
        night = self.master.scheduler_manager.namedServices["night-main-c2558"]
        await night.startBuild()

        assert self.ledger.open_questions() == []

    @case
    async def test_nights_begin_when_the_settings_say(self) -> None:
        """Every day at that hour, by the master's clock."""
        (night,) = watch.nights(self.settings, self.lab)
        await self.start([night])
        evening = dt.datetime(2026, 3, 1, 22, 0).timestamp()  # noqa: DTZ001 - the master's
        at = await night.getNextBuildTime(evening)

        assert dt.datetime.fromtimestamp(at) == dt.datetime(2026, 3, 2, 1, 0)  # noqa: DTZ001, DTZ006
