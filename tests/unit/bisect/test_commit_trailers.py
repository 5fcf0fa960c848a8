"""Commit trailers and merge status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from revision_tree import Tree

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
    ("text", "fixes", "picked"),
    [
        (f"pf: Repair\n\nFixes:\t{A}\n", (A,), ()),
        ('x\n\nFixes: 0a1b2c3d4e5f ("igb: Convert to iflib")', ("0a1b2c3d4e5f",), ()),
        ("x\n\nFixes:\t0a1b2c3d4e5f igb: Convert deadbeef to iflib", ("0a1b2c3d4e5f",), ()),
        ("x\n\nFixes: 0a1b2c3d4e5f, 1a1b2c3d4e5f", ("0a1b2c3d4e5f", "1a1b2c3d4e5f"), ()),
        ("x\n\nFixes:  r311849\nFixes:  0a1b2c3d4e5f", ("r311849", "0a1b2c3d4e5f"), ()),
        ("x\n\nFixes: the previous commit", (), ()),
        (f"x\n\nThis reverts commit {A}.", (A,), ()),
        ("x\n\nThis fixes: nothing", (), ()),
        (f"igb: Count\n\n(cherry picked from commit {A})", (), (A,)),
        (f"x\n\n(cherry picked from commit {A})\n(cherry picked from commit {B})", (), (A, B)),
        ("MFC r311849:", (), ("r311849",)),
        ("MFC: 311849", (), ("r311849",)),
        ("MFC: r311849-r311851", (), ("r311849", "r311850", "r311851")),
        ("MFC r311849 through r311850:", (), ("r311849", "r311850")),
        ("MFC 0a1b2c3d4e5f: igb: Count", (), ("0a1b2c3d4e5f",)),
        ("MFC after: 311849", (), ()),
        ("MFC the driver", (), ()),
        ("MFC: r1-r99999999", (), ()),
    ],
)
def test_fixes_and_cherry_picks(text: str, fixes: tuple[str, ...], picked: tuple[str, ...]) -> None:
    found = parse_trailers(text)
    assert (found.fixes, found.picked) == (fixes, picked)


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
        "A later commit claims to fix it: 1a1b2c (igb: Correct it).",
        "The fix is not yet on stable/13.",
    ]


def test_merge_status_from_a_repository(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "src")
    [begin] = tree.grow("main", "Begin")
    [culprit] = tree.grow("main", "igb: Change\n\nMFC after:\t2 weeks")
    at = tree.time
    text = f"igb: Change\n\n(cherry picked from commit {culprit})"
    [pick] = tree.grow("stable/14", text, upon=begin)
    [fix] = tree.grow("main", f"igb: Correct it\n\nFixes:\t{culprit[:12]}")
    history = History(tmp_path / "clone.git", str(tree.directory))
    history.update()
    found = merge_status_of(history, culprit, "main", ["stable/14"])
    assert found.due == at + 14 * DAY
    assert {name: one.revision for name, one in found.landed.items()} == {"stable/14": pick}
    assert [one.revision for one in found.fixes] == [fix]
    assert found.landed["stable/14"].number == 2
    assert [one.revision for one in history.since("main", found.commit)] == [fix]
    with pytest.raises(HistoryError, match="there is no branch 'stable/15'"):
        merge_status_of(history, culprit, "main", ["stable/15"])
