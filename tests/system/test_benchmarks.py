"""The benchmark of the search: the same lab for all, honest scores, faithful peers."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # benchmarks/ is run from the checkout, and not installed

from benchmarks import corpus, ours, report, search  # noqa: E402 - see above
from benchmarks.cases import CASES, COMMITS  # noqa: E402
from benchmarks.engine import Outcome, Verdict, play  # noqa: E402
from benchmarks.lab import BootNoise, Lab, World  # noqa: E402
from benchmarks.peers import bayesect, pinpoint, robust  # noqa: E402
from benchmarks.peers.psect import Psect  # noqa: E402
from benchmarks.peers.robust import Robust  # noqa: E402

COLUMNS = [
    *("engine", "case", "trials", "accuracy", "blamed", "blamed_wrong", "builds_mean"),
    *("boots_mean", "runs_mean", "hours_mean", "hours_p95", "calibration"),
]
QUICK = "git bisect, 1 run"


def world(culprit: int = 20, *, commits: int = 32, drop: float = 0.05) -> World:
    """A range where every run tells the truth."""
    levels = np.where(np.arange(commits + 1) >= culprit, 1e6 * (1 - drop), 1e6)
    return World(
        levels=levels,
        run_sd=np.full(commits + 1, 1000.0),
        culprits=(culprit,) if culprit <= commits else (),
        suspected=math.log(1 - drop),
        image=np.arange(commits + 1),
        weights=np.ones(commits),
    )


def peer(name: str, truth: World) -> Outcome:
    if name == "git_bayesect" and bayesect.missing():
        pytest.skip(bayesect.missing())
    lab = Lab(truth, (1, 2, 3))
    return play(search.PEERS[name](search.task(truth, lab)), lab)


# ------------------------------------------------------------------------------- the command


@pytest.mark.long
def test_the_json_is_a_list_with_one_row_per_engine() -> None:
    """Run as documented, it prints all columns, in their order, and nothing else on stdout."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.search", "--case", "ideal", "--trials", "2"),
            *("--seed", "3", "--json", "--engine", QUICK, "--engine", "psect (rule)"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(done.stdout)

    assert [row["engine"] for row in rows] == ["psect (rule)", QUICK]
    assert all(list(row) == COLUMNS for row in rows)
    assert rows[1]["builds_mean"] == rows[1]["runs_mean"] == 8
    assert rows[1]["hours_mean"] == 1.8
    assert rows[1]["calibration"] is None
    assert "ideal" in done.stderr


def test_without_a_case_all_are_played_and_laid_out_as_a_table() -> None:
    """A person gets lines of one width, one for each case."""
    result = CliRunner().invoke(
        search.main, ["--trials", "1", "--jobs", "1", "--engine", QUICK], catch_exceptions=False
    )
    lines = result.stdout.splitlines()

    assert [line.split()[0] for line in lines[1:]] == [
        case.name for case in CASES.values() if not case.luck
    ]
    assert len({len(line) for line in lines if "not played" not in line}) == 1


def test_results_depend_on_the_seed_and_not_on_the_number_of_processes() -> None:
    """Twelve trials are spread over jobs, and still the same twelve."""

    def rows(seed: int, jobs: int) -> list[search.Row]:
        trials = dict.fromkeys(search.ENGINES, 12)
        return list(search.run(["psect (rule)"], ["ideal"], trials, seed, jobs))

    assert rows(5, 1) == rows(5, 2)
    assert rows(5, 1) != rows(6, 1)


def test_a_case_that_has_the_luck_of_another_differs_in_its_layouts_only() -> None:
    """So that what they bring can be read off two rows."""
    for case in CASES.values():
        if case.luck and not case.missing():
            one, other = (
                found.draw(np.random.default_rng(5)) for found in (case, CASES[case.luck])
            )
            assert (one.layouts, other.layouts > 0) == (0, True)
            assert one.culprits == other.culprits
            assert one.image_sd == other.image_sd


def test_every_layout_of_a_revision_has_an_offset_of_its_own() -> None:
    """Drawn apart from the others' luck, and the same whenever it is booted."""
    noisy = replace(world(), image_sd=0.02, run_sd=np.zeros(33))
    one, other = Lab(noisy, (7,)), Lab(noisy, (7,))
    for lab, layouts in ((one, (0, 1, 2)), (other, (2, 0, 1))):
        lab.build(4)
        lab.relinked |= {(4, 1), (4, 2)}
        levels = {}
        for layout in layouts:
            lab.boot(4, layout=layout)
            levels[layout] = lab.run()
        assert len(set(levels.values())) == 3
        if lab is one:
            first = levels
    assert levels == first


def test_a_case_without_its_data_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The row is there, empty, with the reason."""
    monkeypatch.setattr(corpus, "DATA", tmp_path)
    (row,) = search.run([QUICK], ["corpus"], {QUICK: 1}, 1, 1)

    assert "netbenches" in row.public()["skipped"]
    assert row.trials == 0
    assert row.accuracy is None


def test_a_peer_that_is_not_installed_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the others are played."""
    monkeypatch.setattr(bayesect, "find_spec", lambda _name: None)
    rows = list(search.run(["git_bayesect", QUICK], ["ideal"], {QUICK: 1, "git_bayesect": 1}, 1, 1))

    assert "pip install" in rows[0].skipped
    assert not rows[1].skipped


# ----------------------------------------------------------------------------------- the lab


def test_all_engines_meet_the_same_luck() -> None:
    """A boot and a run of a revision are the same, whatever was run before."""
    noisy = replace(world(), boot=BootNoise(0.01, 0.3, 0.02, 0.1, 0.1), image_sd=0.01)
    one, other = Lab(noisy, (7,)), Lab(noisy, (7,))
    other.build(4)
    other.boot(4)
    other.run()
    for lab in (one, other):
        lab.build(9)
        lab.boot(9)

    assert [one.run() for _ in range(3)] == [other.run() for _ in range(3)]
    other.boot(9)
    one.boot(9)
    assert one.run() == other.run()


def test_runs_of_a_boot_share_its_luck() -> None:
    """In two modes, the runs of a boot are all in one, and both modes are seen."""
    lab = Lab(replace(world(), boot=BootNoise(low_share=0.3, low_gap=0.05)), (1,))
    low = []
    for _ in range(200):
        lab.boot(0)
        runs = {lab.run() < 975_000 for _ in range(4)}
        assert len(runs) == 1
        low.append(runs.pop())

    assert 0.2 < np.mean(low) < 0.4


def test_the_account_is_kept_in_the_prices_of_the_lab() -> None:
    """The ends are built; a failed build costs as much, and is not tried again."""
    lab = Lab(replace(world(), broken=frozenset({5})), (1,))
    lab.boot(0)
    lab.run()
    assert lab.seconds == 180 + 30
    assert not lab.build(5)
    assert lab.build(6)
    assert lab.build(6)
    assert (lab.builds, lab.seconds) == (2, 1410)
    with pytest.raises(AssertionError, match="known not to build"):
        lab.build(5)


@pytest.mark.parametrize("name", [name for name in CASES if not CASES[name].missing()])
def test_what_is_planted_is_what_is_described(name: str) -> None:
    """Culprits are where the level falls, and can be found."""
    for seed in range(20):
        truth = CASES[name].draw(np.random.default_rng(seed))
        falls = np.flatnonzero(np.diff(truth.levels) < 0) + 1

        assert truth.commits == (128 if name in {"wander", "cheap"} else COMMITS)
        assert name == "drift" or tuple(falls) == truth.culprits
        for culprit in truth.culprits:
            assert not {culprit, culprit - 1} & truth.broken
            assert truth.image[culprit] == culprit
        assert not {0, COMMITS} & truth.broken


@pytest.mark.data
def test_the_noise_of_the_corpus_is_that_of_routers() -> None:
    """Boots scatter by a per cent, some routers have image noise, and some two modes."""
    if corpus.missing():
        pytest.skip(corpus.missing())
    drawn = [corpus.draw(np.random.default_rng(seed)) for seed in range(500)]

    assert 0.004 < np.median([noise.boot.sd for noise in drawn]) < 0.015
    assert 0.1 < np.mean([noise.image_sd > 0 for noise in drawn]) < 0.6
    assert 0.01 < np.mean([noise.boot.low_share > 0 for noise in drawn]) < 0.2


@pytest.mark.parametrize(
    ("case", "verdict", "right", "wrong"),
    [
        ("ideal", Verdict((1,)), False, True),
        ("none", Verdict(none=True), True, False),
        ("none", Verdict(), False, False),
        ("none", Verdict((9,)), False, True),
        ("drift", Verdict(), True, False),
        ("drift", Verdict((9,)), False, True),
    ],
)
def test_a_verdict_is_held_against_the_truth(
    case: str, verdict: Verdict, *, right: bool, wrong: bool
) -> None:
    """Nobody named is right where nobody did it; "nothing changed" has to be said."""
    truth = CASES[case].draw(np.random.default_rng(1))
    scored = search.score(truth, Outcome(verdict, 0, 0, 0, 0.0))

    assert (scored.right, scored.wrong) == (right, wrong)


def test_of_two_culprits_both_have_to_be_named() -> None:
    """One of them is not wrong, but not right either."""
    truth = CASES["two"].draw(np.random.default_rng(1))
    one = search.score(truth, Outcome(Verdict(truth.culprits[:1]), 0, 0, 0, 0.0))
    both = search.score(truth, Outcome(Verdict(truth.culprits), 0, 0, 0, 0.0))

    assert (one.right, one.wrong) == (False, False)
    assert (both.right, both.wrong) == (True, False)


# --------------------------------------------------------------------------------- the peers


@pytest.mark.parametrize("name", search.PEERS)
@pytest.mark.parametrize("culprit", [1, 20, 32])
def test_a_peer_finds_what_is_easy(name: str, culprit: int) -> None:
    """Anywhere, without noise."""
    assert peer(name, world(culprit)).verdict.culprits == (culprit,)


@pytest.mark.parametrize("name", search.PEERS)
def test_a_peer_finds_its_way_round_what_does_not_build(name: str) -> None:
    """Nothing that failed is asked for again."""
    broken = frozenset({2, 7, 8, 9, 14, 15, 16, 17, 24, 31})

    assert peer(name, replace(world(), broken=broken)).verdict.culprits == (20,)


def test_our_search_finds_what_is_easy() -> None:
    """Through the same lab."""
    played = ours.play(world(), Lab(world(), (1,)))

    assert played.verdict.culprits == (20,)
    assert played.verdict.posterior is not None
    assert played.verdict.posterior >= 0.99


def test_where_nothing_changed_pinpoint_says_so_and_git_bisect_names_the_last() -> None:
    """The one compares the ends first; the other believes what it was told."""
    nothing = world(33)

    assert peer("Pinpoint (rule)", nothing).verdict == Verdict(none=True)
    assert peer("Pinpoint (rule)", nothing).builds == 0
    assert peer("git bisect, mean of 5", nothing).verdict.culprits == (32,)


@pytest.mark.parametrize(
    ("votes", "flakiness"),
    [
        ([], 0.5),
        ([(1, True)], 0.3930),
        ([(1, True), (1, True)], 0.2441),
        ([(1, True), (2, True)], 0.2789),
        ([(1, False), (1, True)], 0.622),
        ([(1, True), (2, False)], 0.8),
        ([(1, True)] * 100 + [(1, False)], 0.02),
    ],
)
def test_flakiness_is_what_robust_binary_search_makes_of_votes(
    votes: list[tuple[int, bool]], flakiness: float
) -> None:
    """The examples of its own tests; a vote is a failure here."""
    lab = Lab(world(), (1,))
    engine = Robust(search.task(lab.world, lab))
    for position, failed in votes:
        engine.observe(position, 0.0 if failed else 2e6)

    assert engine._flakiness() == pytest.approx(flakiness, abs=1e-4)


def test_stiffness_is_as_published() -> None:
    """The least of three powers of the flakiness."""
    assert robust._stiffness(0.5) == pytest.approx(0.19 / 0.5**2.4)
    assert robust._stiffness(0.01) == pytest.approx(2.6 / 0.01**0.37)


@pytest.mark.parametrize(
    ("magnitude", "runs", "published"),
    [(0.5, 100, 0.0342), (1.0, 20, 0.0859), (1.0, 30, 0.0095), (0.7, 40, 0.0791)],
)
def test_thresholds_of_pinpoint_are_near_its_table(
    magnitude: float, runs: int, published: float
) -> None:
    """Within 30 %, where it decides to run again."""
    assert pinpoint._high(magnitude, runs) == pytest.approx(published, rel=0.3)


def test_psect_asks_where_the_expected_entropy_is_least() -> None:
    """The sums agree with Bayes' rule, outcome by outcome."""
    lab = Lab(world(commits=16, culprit=7), (1,))
    engine = Psect(replace(search.task(lab.world, lab), false_failures=0.1, true_failures=0.7))
    for position, pps in ((8, 0.0), (4, 2e6), (9, 2e6)):
        engine.observe(position, pps)
    expected = []
    for position in range(17):
        total = 0.0
        for rates in ((0.9, 0.3), (0.1, 0.7)):
            joint = engine._chances * np.where(np.arange(17) <= position, rates[1], rates[0])
            after = joint[joint > 0] / joint.sum()
            total -= float(joint.sum() * (after * np.log(after)).sum())
        expected.append(total)

    assert engine._expected_entropy() == pytest.approx(expected)


# -------------------------------------------------------------------------------- the report


@pytest.fixture(scope="module")
def played() -> list[search.Row]:
    """One trial of our search, and one of a peer."""
    trials = dict.fromkeys(search.ENGINES, 1)
    return list(search.run([search.OURS, QUICK], ["ideal"], trials, 1, 1))


def test_a_range_is_held_against_the_truth_too() -> None:
    """It is no name: nobody is right or wrong by it, but it may hold the culprit."""
    truth = CASES["image"].draw(np.random.default_rng(1))
    (culprit,) = truth.culprits
    near = Outcome(Verdict(suspects=(culprit - 1, culprit)), 0, 0, 0, 0.0)
    far = Outcome(Verdict(suspects=(culprit + 1,)), 0, 0, 0, 0.0)
    row = search.summarise(search.OURS, "image", [search.score(truth, one) for one in (near, far)])

    assert (row.accuracy, row.blamed, row.blamed_wrong) == (0, 0, 0)
    assert row.in_range == 0.5


@pytest.mark.long
def test_the_page_is_written_anew_between_its_markers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, played: list[search.Row]
) -> None:
    """What people wrote stays; the same results make the same page and the same picture."""
    page, picture = tmp_path / "benchmarks.md", tmp_path / "benchmarks.svg"
    page.write_text(report.PAGE.read_text())
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "PICTURE", picture)
    report.write(played, 1)
    first = page.read_text(), picture.read_bytes()
    report.write(played, 1)

    assert (page.read_text(), picture.read_bytes()) == first
    assert f"| case | netbisect | {' | '.join(search.PEERS)} |" in first[0]
    assert "| `ideal` | hours ≤ 2.05 |" in first[0]
    assert "## Limits" in first[0]
    assert b"<svg" in first[1]


def test_what_is_played_anew_takes_the_place_of_what_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, played: list[search.Row]
) -> None:
    """One case or engine can be played again; all other rows stay, in the order of the page."""
    page, results = tmp_path / "benchmarks.md", tmp_path / "rows.json"
    page.write_text(report.PAGE.read_text())
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "PICTURE", tmp_path / "benchmarks.svg")
    kept = [asdict(row) for row in played]
    results.write_text(json.dumps({"seed": 1, "rows": kept}))
    options = ["--peer-trials", "2", "--jobs", "1", "--results", str(results)]
    one = ["--case", "ideal", "--engine", QUICK]
    done = CliRunner().invoke(report.main, [*options, *one], catch_exceptions=False)
    other = CliRunner().invoke(report.main, [*options, *one, "--seed", "2"])
    rows = json.loads(results.read_text())["rows"]

    assert done.exit_code == 0
    assert rows[:1] == kept[:1]
    assert [(row["engine"], row["trials"]) for row in rows[1:]] == [(QUICK, 2)]
    assert "1 trials of netbisect, 2 of each other" in page.read_text()
    assert other.exit_code == 2
    assert "is of seed 1, not 2" in other.output


def test_a_goal_is_reached_or_missed_by_a_number() -> None:
    """In either direction."""
    row = search.Row(search.OURS, "ideal", 100, accuracy=0.97, hours_mean=2.0)

    assert report.Goal("ideal", "hours_mean", 2.05).short_by(row) <= 0
    assert report.Goal("ideal", "accuracy", 0.99, least=True).short_by(row) == pytest.approx(0.02)


def test_a_page_without_markers_is_left_alone() -> None:
    """The message names the marker."""
    with pytest.raises(ValueError, match="goals"):
        report.between("nothing here", "goals", ["a"])


def test_every_case_and_every_engine_is_described_on_the_page() -> None:
    """What is printed can be looked up."""
    page = report.PAGE.read_text()

    assert all(f"- `{name}`: " in page for name in CASES)
    for name in search.ENGINES:
        assert f"**{name.split(', ')[0] if 'git bisect' in name else name}**" in page


def test_the_columns_of_a_row_are_those_of_the_json() -> None:
    """Besides them there is only what the report needs."""
    names = [field.name for field in fields(search.Row)]
    report_only = ("builds_median", "in_range")

    assert names == [*COLUMNS, *report_only, "skipped"]
