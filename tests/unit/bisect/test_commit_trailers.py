"""Commit trailers and merge status."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from programs import git

from netbisect.bisect.commit_trailers import merge_status, parse_trailers
from netbisect.bisect.model.entities import Commit
from netbisect.reports.mail.backports import stable_sentences
from netbisect.store.git.history import History, merge_status_of
from netbisect.store.git.mirror import HistoryError

DAY = 86_400.0
A, B, C = "0a1b2c3d4e5f" + "a" * 28, "1a1b2c3d4e5f" + "b" * 28, "2a1b2c3d4e5f" + "c" * 28
NOVEMBER = 1_795_219_200.0
"""2026-11-21."""


@pytest.mark.parametrize(
    ("period", "days"),
    [
        ("2 weeks", 14),
        ("1 month", 30),
        ("a week", 7),
        ("week", 7),
        ("One Month", 30),
        ("2w", 14),
        ("10 days (after the freeze)", 10),
        ("immediately", 0),
        ("never", None),
        ("", None),
        ("2 wombats", None),
        ("1000 years", None),  # has no date
    ],
)
def test_mfc_after_period(period: str, days: float | None) -> None:
    for key in ("MFC after:\t", "MFC After: ", "  MFC-after:        "):
        found = parse_trailers(f"igb: Count\n\nText.\n\n{key}{period}\nSponsored by:\tSomebody\n")
        assert found.mfc_after == (None if days is None else days * DAY)
        assert found.mfc_words == ("" if days is None else period)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (f"Fixes:\t{A}", (A,)),
        ('Fixes: 0a1b2c3d4e5f ("igb: Convert to iflib")', ("0a1b2c3d4e5f",)),
        ("Fixes:\t0a1b2c3d4e5f igb: Convert deadbeef to iflib", ("0a1b2c3d4e5f",)),
        ("Fixes: 0a1b2c3d4e5f, 1a1b2c3d4e5f", ("0a1b2c3d4e5f", "1a1b2c3d4e5f")),
        ("Fixes:  r311849\nFixes:  0a1b2c3d4e5f", ("r311849", "0a1b2c3d4e5f")),
        ("Fixes: the previous commit", ()),
        (f"This reverts commit {A}.", (A,)),
        ("This fixes: nothing", ()),
    ],
)
def test_fixes(line: str, names: tuple[str, ...]) -> None:
    assert parse_trailers(f"pf: Repair\n\n{line}\n").fixes == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"igb: Count\n\n(cherry picked from commit {A})", (A,)),
        (f"x\n\n(cherry picked from commit {A})\n(cherry picked from commit {B})", (A, B)),
        ("MFC r311849:", ("r311849",)),
        ("MFC: 311849", ("r311849",)),
        ("MFC: r311849-r311851", ("r311849", "r311850", "r311851")),
        ("MFC r311849 through r311850:", ("r311849", "r311850")),
        ("MFC 0a1b2c3d4e5f: igb: Count", ("0a1b2c3d4e5f",)),
        ("MFC after: 311849", ()),
        ("MFC the driver", ()),
        ("MFC: r1-r99999999", ()),
    ],
)
def test_cherry_picks(text: str, names: tuple[str, ...]) -> None:
    assert parse_trailers(text).picked == names


def commit(revision: str, body: str = "", subject: str = "igb: Change", day: float = 0) -> Commit:
    at = NOVEMBER + day * DAY
    return Commit(revision, 1, subject, body, "A", "a@example.org", at)


CULPRIT = commit(A, "MFC after:\t2 weeks\n")
PICK = commit(C, f"MFC after:\t2 weeks\n\n(cherry picked from commit {A})", day=13)
FIX = commit(B, f"Fixes:\t{A[:12]}", "igb: Correct it", day=20)
FIX_PICK = commit("3" * 40, f"Fixes:\t{A[:12]}\n\n(cherry picked from commit {B})", day=25)
OTHER = commit("4" * 40, "MFC after: 1 week", day=3)
BRANCHES = ("stable/13", "stable/14")


def sentences(
    now: float,
    later: tuple[Commit, ...] = (),
    culprit: Commit = CULPRIT,
    **stable: tuple[Commit, ...],
) -> list[str]:
    branches = {f"stable/{name[1:]}": commits for name, commits in stable.items()}
    found = merge_status(culprit, later, {"stable/13": (), "stable/14": (), **branches})
    return stable_sentences(found, BRANCHES, lambda name: name[:6], NOVEMBER + now * DAY)


def test_overdue_merge() -> None:
    assert sentences(20, s14=(OTHER, PICK)) == [
        "It has been on stable/14 since 2026-12-04 (2a1b2c).",
        "It was due on stable/13 on 2026-12-05 (MFC after: 2 weeks), and is not there yet.",
    ]


def test_only_named_branches_are_due() -> None:
    culprit = replace(CULPRIT, body="MFC after: 2 weeks\nMFC to: 14\n")
    assert sentences(1, culprit=culprit) == [
        "It is due on stable/14 on 2026-12-05 (MFC after: 2 weeks)."
    ]
    assert sentences(20, culprit=culprit, s14=(PICK,)) == [
        "It has been on stable/14 since 2026-12-04 (2a1b2c)."
    ]


def test_fix_and_branches_without_it() -> None:
    assert sentences(21, (OTHER, FIX), s13=(PICK,), s14=(PICK, FIX_PICK)) == [
        "It has been on stable/13 since 2026-12-04 (2a1b2c).",
        "It has been on stable/14 since 2026-12-04 (2a1b2c), and was fixed there by 333333.",
        "A later commit says that it fixes it: 1a1b2c (igb: Correct it).",
        "The fix is not yet on stable/13.",
    ]


def dated(day: float) -> dict[str, str]:
    date = f"@{int(NOVEMBER + day * DAY)} +0000"
    return {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}


def change(repository: Path, message: str, day: float) -> str:
    with (repository / "file").open("a") as stream:
        stream.write(f"{message}\n")
    git(repository, "add", "file")
    git(repository, "commit", "-qm", message, env=dated(day))
    return git(repository, "rev-parse", "HEAD")


def test_merge_status_from_a_repository(tmp_path: Path) -> None:
    repository = tmp_path / "src"
    repository.mkdir()
    git(repository, "init", "-q", "--initial-branch=main")
    change(repository, "Begin", -30)
    git(repository, "branch", "stable/14")
    culprit = change(repository, "igb: Change\n\nMFC after:\t2 weeks", 0)
    git(repository, "checkout", "-q", "stable/14")
    git(repository, "cherry-pick", "-x", culprit, env=dated(10))
    pick = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "main")
    fix = change(repository, f"igb: Correct it\n\nFixes:\t{culprit[:12]}", 12)
    history = History(tmp_path / "clone.git", str(repository))
    history.update()
    found = merge_status_of(history, culprit, "main", ["stable/14"])
    assert found.due == NOVEMBER + 14 * DAY
    assert {name: one.revision for name, one in found.landed.items()} == {"stable/14": pick}
    assert [one.revision for one in found.fixes] == [fix]
    assert found.landed["stable/14"].number == 2
    assert history.since("main", NOVEMBER + DAY)[0].revision == fix
    with pytest.raises(HistoryError, match="there is no branch 'stable/15'"):
        merge_status_of(history, culprit, "main", ["stable/15"])
