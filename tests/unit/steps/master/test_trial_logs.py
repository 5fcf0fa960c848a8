"""Storage of the logs of trials."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from netbisect.steps.master.trial_logs import evict, folder_of, keep
from netbisect.steps.service.settings import MailSettings, Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    mail = MailSettings(to=("a@b",), sender="c@d")
    return Settings(branches=("main",), mail=mail, state=tmp_path, trial_log_space="1 kB")


def store_logs(settings: Settings, decision: int, size: int) -> None:
    place = folder_of(settings, decision)
    place.mkdir(parents=True)
    (place / "console.log").write_bytes(b"x" * size)
    # Modification times do not matter: they change while files are removed.
    os.utime(place, (1e9 - decision, 1e9 - decision))


def stored(settings: Settings) -> list[int]:
    return sorted(int(path.name) for path in settings.trial_logs.iterdir())


@pytest.mark.parametrize(
    ("retained", "removed", "remaining"), [(set(), [1, 2], [3, 4]), ({1, 2}, [3, 1], [2, 4])]
)
def test_oldest_logs_are_removed_first_and_retained_logs_last(
    settings: Settings, retained: set[int], removed: list[int], remaining: list[int]
) -> None:
    for decision in (1, 2, 3, 4):
        store_logs(settings, decision, 400)
    assert evict(settings, retained, newest=4) == removed
    assert stored(settings) == remaining
    assert evict(settings, retained, newest=4) == []


def test_trials_that_end_together_make_room_together(settings: Settings) -> None:
    for decision in range(1, 301):
        store_logs(settings, decision, 400)
    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(evict, settings, (), newest=300) for _ in range(8)]
        assert all(len(one.result()) <= 298 for one in calls)
    assert len(stored(settings)) == 2


def test_logs_replace_those_of_an_earlier_attempt(tmp_path: Path) -> None:
    """Incomplete uploads of the same testbed, and logs that cannot be stored, are removed."""
    names = (".incoming-bench-a-7", ".incoming-bench-a-6", ".incoming-bench-a-b-6", "9")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / name.lstrip(".")).write_text("")
    assert keep(tmp_path / names[0], tmp_path / "9") == ""
    assert [path.name for path in (tmp_path / "9").iterdir()] == ["incoming-bench-a-7"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".incoming-bench-a-b-6", "9"]

    incoming = tmp_path / ".incoming-bench-a-1"
    incoming.mkdir()
    assert "the logs cannot be stored: " in keep(incoming, tmp_path / "none" / "9")
    assert not incoming.exists()


def test_trial_log_space_is_parsed(settings: Settings) -> None:
    assert settings.trial_log_bytes == 1000
    with pytest.raises(ValueError, match="trial_log_space 'much': expected an amount of space"):
        replace(settings, trial_log_space="much")
