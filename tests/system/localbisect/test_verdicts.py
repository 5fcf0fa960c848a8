"""The results of `netbisect bisect run`: several culprits, drift, false alarms."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from localbisect_fixtures import Files, MakeRepository, numbered

SLOW_RUNS = """
n=$(($(wc -l < "$JOURNAL" || echo 0)))
case "$n" in 9|[1-9][0-9]*) factor=0.95 ;; *) factor=1 ;; esac
./bench.sh | awk -v factor="$factor" '/^result:/ { print $2 * factor }'
"""
"""A machine that is slow from the tenth run on, independent of the revision."""


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.long
def test_two_culprits_are_both_verified(make_repository: MakeRepository) -> None:
    """The first one made the number rise."""
    changes: dict[int, Files] = {8: {"level": "1040\n"}, 24: {"level": "950\n"}}
    repository = make_repository(numbered(32, changes))
    done = repository.search()
    found = json.loads(repository.search("--json").stdout)
    culprits = [repository.revisions[number] for number in (8, 24)]
    output = plain(done.stdout)

    assert output.startswith("2 commits made a change each. Commit ")
    assert (found["result"], found["status"]) == ("several", 0)
    assert [one["culprit"] for one in found["culprits"]] == culprits[::-1]  # by effect
    for one, revision, move in zip((8, 24), culprits, ("rise: +", "fall: -"), strict=True):
        assert f"Commit {revision[:12]} Change {one} made the number {move}" in output
        assert f"commit {revision} subject Change {one} author Ann Author" in output
    for culprit, percent in zip(found["culprits"], (-8.7, 4.0), strict=True):
        (effect,) = culprit["effects"]
        assert culprit["commit"]["author"] == "Ann Author"
        assert effect["percent"] == pytest.approx(percent, abs=1.5)
    assert "two commits or more: more than 9" in plain(repository.explain())


def test_drift_has_no_culprit(make_repository: MakeRepository) -> None:
    slope: dict[int, Files] = {
        n: {"level": f"{1000 * math.exp(-0.06 * n / 63):.3f}\n"} for n in range(64)
    }
    repository = make_repository(numbered(64, slope))
    done = repository.search(SPREAD="0.002")
    found = json.loads(repository.search("--json").stdout)

    assert done.returncode == 3, done.stdout
    assert plain(done.stdout).startswith("The number changed gradually over the range: ")
    assert "Most likely commits" not in done.stdout
    assert (found["result"], found["status"]) == ("drift", 3)
    repository.replay()


@pytest.mark.long
def test_change_of_the_machine_has_no_culprit(make_repository: MakeRepository) -> None:
    """The machine becomes slow after the comparison of the ends."""
    repository = make_repository(numbered(30, {20: {"level": "950\n"}}))
    command = SLOW_RUNS.replace("./bench", "grep -q 950 level && factor=1; ./bench")
    done = repository.search("--", "sh", "-c", command, SPREAD="0.002")
    output = plain(done.stdout)
    data = json.loads(repository.search("--json", "--", "sh", "-c", command).stdout)

    assert done.returncode == 3, done.stdout
    assert f"The good end, {repository.revisions[0][:12]} Change 0, has changed: -" in output
    assert (data["result"], data["status"]) == ("notreproduced", 3)


@pytest.mark.long
def test_long_set_ups_have_several_runs_per_trial(make_repository: MakeRepository) -> None:
    """An interrupted trial resumes with its remaining runs."""
    repository = make_repository(numbered(6, {4: {"level": "940\n"}}))
    call = ("--setup", "sleep 2")  # much longer than a run, on a busy machine too
    done = repository.search(*call, SPREAD="0.02")
    trials = repository.facts("visit")
    boots = Counter(str(sample["boot"]) for sample in repository.facts("sample"))

    assert done.returncode == 0, done.stderr
    assert f"Commit {repository.revisions[4][:12]}" in done.stdout
    for reason in ("compares the two ends", "verifies"):
        ordered = [trial for trial in trials if str(trial["why"]).startswith(reason)]
        assert max(int(str(trial["runs"])) for trial in ordered) > 1
    assert list(boots.values()) == [trial["runs"] for trial in trials]
    assert "run 2 of " in done.stderr
    assert "Verified against its parent by fresh interleaved trials, " in plain(done.stdout)
    repository.replay()

    lines = repository.log.read_bytes().splitlines(keepends=True)
    entries = [json.loads(line) for line in lines]
    several = next(n for n, one in enumerate(entries) if one["is"] == "visit" and one["runs"] > 1)
    first = next(n for n in range(several, len(entries)) if entries[n]["is"] == "sample")
    before = b"".join(lines[: first + 1])
    repository.log.write_bytes(before)
    done = repository.search(*call, SPREAD="0.02")

    assert repository.log.read_bytes().startswith(before)
    assert f"Commit {repository.revisions[4][:12]}" in done.stdout
    repository.replay()
