"""The clock opens nights; the poller shows what landed."""

from __future__ import annotations

import datetime as dt
import shutil

from real_master import RealMaster, case

from netbisect.bisect.model import Dud, Kernel, Night, NightDone, Reaction, Stage, Unfinished
from netbisect.demo.tree.create import create
from netbisect.steps import watch
from netbisect.steps.settings import load
from netbisect.store.records import Decision, DecisionStage, Outcome


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
    async def test_a_broken_head_is_measured_with_the_fix_that_the_lab_file_has_for_it(
        self,
    ) -> None:
        """What is known of it without the fix does not count."""
        head = self.plant()
        one = f'{{ name = "mend", patch = "p", first = "{head}", last = "{head}" }}'
        lab = (self.folder / "lab.toml").read_text()
        lab = lab.replace("[[builders]]", f"overlays = [{one}]\n[[builders]]")
        (self.folder / "lab.toml").write_text(lab)
        (self.folder / "p").touch()
        self.settings, self.lab = load(self.folder / "netbisect.toml")
        plain = Kernel(head, "GENERIC", "amd64", "id", "key", "n8", 1, 1.0, 1.0)
        self.ledger.record(plain)
        self.ledger.record(
            Dud("dud", head, Stage.BOOT, Reaction.SKIP, "panic", 2.0, 9.0, "c2558"),
            self.decided_without(head).id,
        )
        await self.start(watch.nights(self.settings, self.lab))
        await self.master.scheduler_manager.namedServices["night-main-c2558"].startBuild()
        asked = await self.closed(self.ledger.question(2))

        assert asked.finding == NightDone(self.settings.night.boots)
        assert {one.config for one in self.ledger.decisions(asked.id)} == {"GENERIC+mend"}
        assert self.calls().count(f"build {head}") == 1

    def decided_without(self, head: str) -> Decision:
        """An earlier decision about it, whose question has ended."""
        asked = self.ledger.ask(
            Night("stable/15", "c2558", head, ("inet4-forwarding",), 1), key="earlier"
        )
        decision = self.ledger.intend(
            asked.id,
            DecisionStage.TRIAL,
            head,
            "c2558",
            config="GENERIC",
            arch="amd64",
            why="",
        )
        self.ledger.finish(decision.id, Outcome.DUD)
        with self.ledger.closing(asked, Unfinished("panic")):
            pass
        return decision

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
