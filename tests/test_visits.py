"""What visits leave behind is kept on the master, whatever became of them, and within its room."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from real_master import RealMaster, case

from netbisect.bisect.model import NightDone, Unfinished
from netbisect.steps.settings import MailSettings, Settings
from netbisect.steps.visits import evict, folder_of, keep


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    mail = MailSettings(to=("a@b",), sender="c@d")
    return Settings(branches=("main",), mail=mail, state=tmp_path, visit_space="1 kB")


def leave(settings: Settings, decision: int, size: int) -> None:
    place = folder_of(settings, decision)
    place.mkdir(parents=True)
    (place / "console.log").write_bytes(b"x" * size)
    os.utime(place, (decision, decision))


def there(settings: Settings) -> list[int]:
    return sorted(int(path.name) for path in settings.visits.iterdir())


def test_the_oldest_visits_make_room(settings: Settings) -> None:
    for decision in (1, 2, 3, 4):
        leave(settings, decision, 400)
    assert evict(settings, (), newest=4) == [1, 2]
    assert there(settings) == [3, 4]
    assert evict(settings, (), newest=4) == []


def test_failed_visits_and_those_of_open_alerts_go_last(settings: Settings) -> None:
    for decision in (1, 2, 3, 4):
        leave(settings, decision, 400)
    assert evict(settings, {1, 2}, newest=4) == [3, 1]
    assert there(settings) == [2, 4]


def test_the_newest_visit_stays_however_large_it_is(settings: Settings) -> None:
    leave(settings, 1, 10)
    leave(settings, 2, 5000)
    assert evict(settings, {1}, newest=2) == [1]
    assert there(settings) == [2]


def test_a_later_try_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    """And what a killed master left of the same testbed goes, but not another testbed's."""
    names = (".incoming-bench-a-7", ".incoming-bench-a-6", ".incoming-bench-a-b-6", "9")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / name.lstrip(".")).write_text("")
    assert keep(tmp_path / names[0], tmp_path / "9") == ""
    assert [path.name for path in (tmp_path / "9").iterdir()] == ["incoming-bench-a-7"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".incoming-bench-a-b-6", "9"]


def test_what_cannot_be_kept_is_told(tmp_path: Path) -> None:
    incoming = tmp_path / ".incoming-bench-a-1"
    incoming.mkdir()
    assert "the logs cannot be kept: " in keep(incoming, tmp_path / "none" / "9")
    assert not incoming.exists()


def test_room_is_an_amount_of_space(settings: Settings) -> None:
    assert settings.visit_bytes == 1000
    with pytest.raises(ValueError, match="visit_space 'much': expected an amount of space"):
        replace(settings, visit_space="much")


class Visits(RealMaster):
    """Through a master and its worker."""

    @case
    async def test_logs_come_to_the_master(self) -> None:
        """Each visit has a folder of its own, with nothing of the visit before in it."""
        await self.start()
        asked = self.ask(boots=2)
        closed = await self.closed(asked)
        assert isinstance(closed.finding, NightDone)
        trials = [one for one in self.ledger.decisions(asked.id) if one.stage.value == "trial"]
        assert len(trials) == 2
        for one in trials:
            folder = folder_of(self.settings, one.id)
            await self.until(folder.is_dir)
            assert [path.name for path in folder.iterdir()] == ["trial-ok.log"]
        assert not list(self.settings.visits.glob(".incoming*"))

    @case
    async def test_logs_of_a_visit_that_failed_come_too(self) -> None:
        self.script({"a" * 40: {"trial": "dud"}})
        await self.start()
        asked = self.ask()
        closed = await self.closed(asked)
        assert isinstance(closed.finding, Unfinished)
        failed = self.ledger.failed_decisions()
        assert failed
        for number in failed:
            folder = folder_of(self.settings, number)
            await self.until(folder.is_dir)
            assert [path.name for path in folder.iterdir()] == ["trial-dud.log"]
