"""`netbisect bisect run --overlay`: a patch for revisions that do not build without it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from localbisect_fixtures import Files, MakeRepository, Repository, numbered

FIX = """\
--- a/Makefile
+++ b/Makefile
@@ -1,3 +1,3 @@
 CC = cc
-LIBS =
+LIBS = -lm
 all: prog
"""
BUILT, UNBUILT = ("CC = cc\nLIBS = -lm\nall: prog\n", "CC = cc\nLIBS =\nall: prog\n")
LINKS = ("--setup", "grep -q lm Makefile || { echo 'undefined reference to sqrt' >&2; exit 2; }")


@pytest.fixture
def broken_range(make_repository: MakeRepository) -> Repository:
    """Forty commits: 10 to 25 do not build, and the 17th makes the program 5 % slower."""
    changes: dict[int, Files] = {0: {"Makefile": BUILT}, 10: {"Makefile": UNBUILT}}
    changes |= {17: {"level": "950\n"}, 26: {"Makefile": BUILT}}
    return make_repository(numbered(41, changes))


@pytest.fixture
def fix(tmp_path: Path) -> Path:
    path = tmp_path / "link.patch"
    path.write_text(FIX)
    return path


@pytest.mark.long
def test_overlay_makes_a_broken_range_measurable(broken_range: Repository, fix: Path) -> None:
    without = broken_range.search(*LINKS, "--json")
    done = broken_range.search(*LINKS, "--overlay", str(fix), "--reset")
    explained = broken_range.explain()
    broken_range.replay()
    found = json.loads(broken_range.search(*LINKS, "--overlay", str(fix), "--json").stdout)
    range_ = json.loads(without.stdout)

    assert without.returncode == 3
    assert range_["suspects"] == broken_range.revisions[10:27]
    assert done.returncode == 0, done.stderr
    assert found["culprit"] == broken_range.revisions[17]
    assert not found["skipped"]
    (overlaid,) = found["overlays"].values()
    assert set(overlaid) == set(found["measured"]) & set(broken_range.revisions[10:26])
    assert "with link.patch applied" in done.stderr
    for text in (done.stdout, explained):
        assert f"link.patch was applied to {len(overlaid)} of the" in " ".join(text.split())
        assert overlaid[0][:12] in text
    Path(f"{broken_range.log}.old").unlink()
    assert broken_range.is_clean()


def test_revisions_are_skipped_if_the_overlay_does_not_apply(
    broken_range: Repository, fix: Path
) -> None:
    fix.write_text(FIX.replace(" all: prog", " all: other"))
    ends = broken_range.search(*LINKS, "--overlay", str(fix))
    limited = f"{fix}@{broken_range.revisions[10]}..{broken_range.revisions[25]}"
    done = broken_range.search(*LINKS, "--overlay", limited, "--reset", "--json")
    found = json.loads(done.stdout)

    assert ends.returncode == 2
    good, bad = broken_range.revisions[0][:12], broken_range.revisions[-1][:12]
    pattern = rf"the (good end, {good}|bad end, {bad}), cannot be measured: --overlay link"
    assert re.search(pattern, ends.stderr)
    assert "link.patch@FIRST..LAST restricts it to a range" in ends.stderr
    assert found["result"] == "suspects"
    assert found["overlays"] == {"link.patch": []}
    assert "link.patch was applied to none of the " in broken_range.explain()
    assert set(found["skipped"]) == set(broken_range.revisions[10:26])
    for why in found["skipped"].values():
        assert "--overlay link.patch neither applies nor is already present: " in why


def test_overlay_is_not_applied_if_already_present(
    make_repository: MakeRepository, fix: Path
) -> None:
    changes: dict[int, Files] = {0: {"Makefile": UNBUILT}, 2: {"Makefile": BUILT, "file": "1\n"}}
    repository = make_repository(numbered(3, changes))
    _, before, fixed = repository.revisions
    done = repository.search(*LINKS, "--overlay", str(fix), "--good", before, "--bad", fixed)
    trees = {entry["revision"]: entry["identity"] for entry in repository.facts("kernel")}

    assert done.returncode == 1, done.stderr
    assert trees[before] == trees[fixed] == repository.git("rev-parse", f"{fixed}^{{tree}}")
    assert f"link.patch was applied to 1 of the 2 revisions measured: {before[:12]}" in (
        " ".join(done.stdout.split())
    )


WRONG_OVERLAYS = [
    ("absent.patch", "absent.patch cannot be read: No such file or directory"),
    ("level", "level is not a patch for git: "),
    ("{fix}@main~2..main~9", "main~2 comes after main~9, expected first..last"),
    ("{fix}@main~9..side", "side is not between the good and the bad end"),
    ("{fix}@main~9..none", "none: no commit of that name"),
]


def test_invalid_and_changed_overlays_are_rejected(broken_range: Repository, fix: Path) -> None:
    broken_range.git("branch", "side", broken_range.git("commit-tree", "-m", "Side", "main^{tree}"))
    for overlay, message in WRONG_OVERLAYS:
        done = broken_range.search("--overlay", overlay.format(fix=fix))
        assert done.returncode == 2
        assert message in done.stderr
    assert not broken_range.log.exists()

    broken_range.search("--overlay", str(fix), "--", "echo", "7")
    fix.write_text(FIX.replace("-lm", "-lm -lz"))
    done = broken_range.search("--overlay", str(fix), "--", "echo", "7")
    assert done.returncode == 2
    assert "is the log of another search: --overlay was 'link.patch (" in done.stderr
