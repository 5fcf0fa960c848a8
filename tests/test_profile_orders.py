"""Profiles as the service orders them, in a real master with a scripted lab."""

from __future__ import annotations

from typing import Any

from real_master import REVISION, RealMaster, case

from netbisect.bisect.model import Night, NightDone, Profiled, Profiling, Unfinished
from netbisect.steps import profiles
from netbisect.steps.conductor import NAME
from netbisect.store.records import Asked, DecisionStage

OTHER = "b" * 40


class Profiles(RealMaster):
    """What is ordered, in which order, and what is left of it."""

    def wish(self, *revisions: str, pps: float = 600_000.0) -> Asked:
        question = Profiling("main", "c2558", revisions, ("inet4-forwarding",), pps)
        return self.ledger.ask(
            question, key=profiles.key_of(question), priority=profiles.PRIORITY_REQUEST
        )

    async def steps_of(self, builder: str) -> list[list[tuple[str, bool]]]:
        """By build: its steps that were not left out, and whether each was successful."""
        number = await self.master.data.updates.findBuilderId(builder)
        found = []
        for build in await self.master.data.get(("builders", number, "builds")):
            steps: list[dict[str, Any]] = await self.master.data.get(
                ("builds", build["buildid"], "steps")
            )
            found.append([(one["name"], one["results"] == 0) for one in steps if not one["hidden"]])
        return found

    @case
    async def test_both_sides_are_visited_and_their_files_are_kept(self) -> None:
        """In the folder of each decision; of the visits the ledger has boots and no sample."""
        await self.start()
        asked = await self.closed(self.wish(REVISION, OTHER))

        assert asked.finding == Profiled((REVISION, OTHER))
        assert [one for one in self.calls() if "profile" in one] == [
            f"profile {REVISION}",
            f"profile {OTHER}",
        ]
        assert not [call for call in self.calls() if "trial" in call]
        first, second = profiles.taken(self.ledger, self.settings.visits, asked)
        assert (first.profile.revision, second.profile.revision) == (REVISION, OTHER)
        assert first.stacks == {("ether_input", REVISION[:4]): 1000}
        assert first.profile.pps == 600_000.0
        decisions = self.ledger.decisions(asked.id)
        kept = sorted(int(path.name) for path in self.settings.visits.iterdir())
        assert kept == [one.id for one in decisions if one.stage is DecisionStage.PROFILE]
        events, _ = self.ledger.events_since(0)
        assert sum(one.kind == "boot" for one in events) == 2
        assert not any(one.kind == "sample" for one in events)
        page = self.settings.reports / f"profile-{asked.id}.html"
        assert REVISION[:4] in page.read_text()
        own = [
            [step for step in steps if "profile" in step[0] or step[0] == "trial"]
            for steps in await self.steps_of("bench-c2558")
        ]
        assert own == 2 * [[("profile", True), ("upload profile", True)]]

    @case
    async def test_a_search_or_a_comparison_goes_first(self) -> None:
        """Nothing of a profile is begun while what has a higher priority wants the testbed."""
        self.script({REVISION: {"trial": "wait"}})
        await self.start()
        night = self.ledger.ask(
            Night("main", "c2558", REVISION, ("inet4-forwarding",), 1),
            key="night:main:c2558:now",
            priority=200,
        )
        wish = self.wish(OTHER)
        await self.until((self.folder / "waiting").exists)
        self.master.scheduler_manager.namedServices[NAME].advance()
        assert self.ledger.decisions(wish.id) == []
        (self.folder / "go").touch()
        wish = await self.closed(wish)

        assert wish.finding == Profiled((OTHER,))
        assert self.ledger.question(night.id).finding == NightDone(1)
        assert self.calls()[-1] == f"profile {OTHER}"

    @case
    async def test_without_a_profile_the_reason_is_the_answer(self) -> None:
        """The other side is not visited: there is nothing to hold it against."""
        self.script({REVISION: {"profile": "dud"}})
        await self.start()
        asked = await self.closed(self.wish(REVISION, OTHER))

        assert isinstance(asked.finding, Unfinished)
        assert "no event" in asked.finding.why
        assert [call for call in self.calls() if "profile" in call] == [f"profile {REVISION}"]
        page = (self.settings.reports / f"profile-{asked.id}.html").read_text()
        assert "no event" in page
        assert self.ledger.known_rates("c2558", "inet4-forwarding", [REVISION]) == {}

    @case
    async def test_passing_trouble_is_tried_again(self) -> None:
        """As often as any order; then the question ends without an answer."""
        self.script({REVISION: {"profile": "crash"}})
        await self.start()
        asked = await self.closed(self.wish(REVISION))

        assert isinstance(asked.finding, Unfinished)
        assert self.calls().count(f"profile {REVISION}") == 3
