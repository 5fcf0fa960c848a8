"""The benchmark of the watch: the same luck for all, honest counts, and rules that find drops."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # benchmarks/ is run from the checkout, and not installed

from benchmarks.detection import __main__ as game  # noqa: E402 - see above
from benchmarks.detection import ours, page  # noqa: E402
from benchmarks.detection.lab import (  # noqa: E402
    BIMODAL,
    BOOTS,
    LEARNING,
    UNIMODAL,
    WITHIN,
    Change,
    Floats,
    Lab,
)
from benchmarks.detection.rules import RULES, Rule, e_divisive, perfherder  # noqa: E402

TEN_PERCENT = math.log(0.9)
AT = 30


def planted(seed: int = 1, ln_ratio: float = TEN_PERCENT, after: int = 12) -> list[Floats]:
    """Nights of five boots that scatter by 0.1 %, the last `after` of them slower."""
    rng = np.random.default_rng(seed)
    level = 14 + ln_ratio * (np.arange(AT + after) >= AT)
    return list(level[:, None] + rng.normal(0, 0.001, (AT + after, BOOTS)))


def small(seed: int = 1, kind: str = "unimodal", changed: int = 2) -> Lab:
    """A lab without a drop at first: changes are put in by hand."""
    return Lab(kind, seed, 6, 60, changed)


# --------------------------------------------------------------------------------------- rules

rules = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


@rules
def test_a_rule_finds_a_drop_where_it_is(rule: Rule) -> None:
    """As soon as its window allows, at most two nights off: 1, 12 or something in between."""
    nights = planted()
    first = next((told, at) for told in range(1, 43) if (at := rule(nights[:told])) is not None)

    assert AT < first[0] <= AT + 12
    assert abs(first[1] - AT) <= 2


@pytest.mark.parametrize("name", [name for name in RULES if "ministat" not in name])
def test_a_rule_that_sees_both_sides_names_the_night(name: str) -> None:
    assert RULES[name](planted()) == AT


@rules
def test_a_rule_finds_no_gain(rule: Rule) -> None:
    nights = planted(ln_ratio=-TEN_PERCENT)

    assert {rule(nights[:told]) for told in range(AT, AT + 3)} <= {None}
    assert "ministat 95 %" in str(rule) or rule(nights) in {None, AT + 11}


@rules
@pytest.mark.parametrize("level", [14.0, 14.5, 0.0])
def test_a_rule_finds_nothing_where_nothing_differs(rule: Rule, level: float) -> None:
    """After any number of nights, from the first one on; and no error either."""
    nights = [np.full(BOOTS, level)] * 40

    with np.errstate(all="ignore"):
        assert [rule(nights[:told]) for told in range(1, 41)] == [None] * 40


def test_rules_ask_for_as_much_as_their_authors_do() -> None:
    """Perfherder 12 nights on either side; small drops are not its business."""
    nights = planted()

    assert perfherder(nights[: AT - 7]) is None
    assert perfherder(planted(ln_ratio=-0.015)) is None
    assert RULES["ministat 95 % (rule)"](planted(ln_ratio=-0.015, after=1)) == AT
    assert RULES["ministat 95 % and 2 % (rule)"](planted(ln_ratio=-0.015, after=1)) is None


def test_a_step_without_any_scatter_is_cut_once() -> None:
    """Both halves are flat: there is no further cut in them."""
    nights = [np.full(BOOTS, 14.0)] * AT + [np.full(BOOTS, 13.9)] * 12

    with np.errstate(all="ignore"):
        assert e_divisive(nights) == AT


def test_of_several_steps_the_last_one_is_told() -> None:
    """Where it is a gain, nobody is."""
    down = planted()
    up = [night + 0.2 for night in planted(seed=2)[AT:]]

    assert e_divisive([*down, *(night - 0.2 for night in down[AT:])]) == AT + 12
    assert e_divisive([*down, *up]) is None


# ----------------------------------------------------------------------------------------- lab


def test_all_engines_meet_the_same_luck() -> None:
    """Whatever they ask for, in whatever order."""
    one, other = small(), small()
    record = list(itertools.product(range(6), (0, 7, 59), (0, 1)))
    found = {key: one.boots(key[0], key[1], key[1], key[2], 5) for key in record}
    again = {key: other.boots(key[0], key[1], key[1], key[2], 5) for key in reversed(record)}

    for key in record:
        np.testing.assert_array_equal(found[key], again[key])


def test_every_night_turn_series_and_seed_has_luck_of_its_own() -> None:
    lab = small()
    seen = [
        tuple(lab.boots(series, night, night, turn, 3))
        for series in (0, 1)
        for night in (3, 4)
        for turn in (0, 1)
    ]
    seen += [tuple(lab.boots(0, 3, 4, 0, 3)), tuple(small(2).boots(0, 3, 3, 0, 3))]

    assert len(set(seen)) == len(seen)


def test_a_kernel_keeps_its_level_in_other_nights() -> None:
    """Its image's offset goes with it, the night's does not."""
    lab = small(changed=0)
    nights = [lab.boots(0, 7, night, 1, 4000).mean() - lab.night[0, night] for night in (7, 30)]

    assert lab.level(0, 7) == 14 + lab.image[0, 7]
    assert nights == pytest.approx([lab.level(0, 7) - 0.0018] * 2, abs=0.001)


def test_a_change_is_there_from_its_night_on() -> None:
    lab = small(changed=0)
    lab.changes[2] = Change(31, TEN_PERCENT)
    level = [lab.level(2, night) - lab.image[2, night] - 14 for night in (30, 31, 59)]

    assert level == pytest.approx([0, TEN_PERCENT, TEN_PERCENT])
    assert lab.level(3, 59) == 14 + lab.image[3, 59]


def test_changes_can_be_found_in_time() -> None:
    """They come after the quiet nights, and long enough before the end; of all four sizes."""
    lab = Lab("unimodal", 3, 40, 70, 24)

    assert list(lab.changes) == list(range(24))
    assert {round(-100 * math.expm1(one.ln_ratio)) for one in lab.changes.values()} == {2, 3, 5, 10}
    assert all(LEARNING <= one.night < 70 - WITHIN for one in lab.changes.values())


@pytest.mark.parametrize(("kind", "share"), [("unimodal", 0.0), ("bimodal", 0.3)])
def test_the_boots_scatter_as_described(kind: str, share: float) -> None:
    lab = small(kind=kind)
    off = lab.boots(5, 3, 3, 0, 20000) - lab.level(5, 3) - lab.night[5, 3]

    assert lab.scatters == [BIMODAL if share else UNIMODAL] * 6
    assert np.mean(off < -0.09) == pytest.approx(share + 0.01, abs=0.015)
    assert np.std(off[off > -0.025]) == pytest.approx(0.01, rel=0.15)


# ------------------------------------------------------------------------------------ the count


def judged(*alerts: tuple[int, int, int]) -> game.Count:
    lab = small(changed=0)
    lab.changes = {0: Change(40, math.log(0.97)), 1: Change(35, math.log(0.95))}
    return game.count(lab, list(alerts))


def test_an_alert_after_a_drop_is_a_hit() -> None:
    """Given are the night when it is told, the series, and the night that is named."""
    found = judged((42, 0, 41), (35, 1, 35))

    assert found.false == 0
    assert found.told == [(pytest.approx(3), 2, 1), (pytest.approx(5), 0, 0)]
    assert found.series_nights == 6 * (60 - LEARNING)


def test_an_alert_too_late_is_no_hit_and_not_false_either() -> None:
    found = judged((40 + WITHIN, 0, 40), (35 + WITHIN - 1, 1, 35))

    assert found.false == 0
    assert [delay for _, delay, _ in found.told] == [None, WITHIN - 1]


def test_an_alert_without_a_drop_is_false() -> None:
    """In another series, before the drop, or a second one for the same drop."""
    assert judged((50, 3, 49)).false == 1
    assert judged((39, 0, 38)).false == 1
    assert judged((41, 0, 40), (44, 0, 40)).false == 1
    assert [delay for _, delay, _ in judged((39, 0, 38), (43, 0, 40)).told] == [3, None]


def test_alerts_of_the_quiet_nights_do_not_count() -> None:
    found = judged((LEARNING - 1, 3, 20), (5, 0, 4))

    assert found.false == 0
    assert judged((LEARNING, 3, 20)).false == 1


def test_without_an_alert_nothing_is_hit() -> None:
    assert judged().told == [(pytest.approx(3), None, 0), (pytest.approx(5), None, 0)]


def test_labs_are_summed_up_per_300_series_nights() -> None:
    one = game.Count(150, 1, [(3.0, 2, 1), (5.0, None, 0)], boots=30, retests=4, suspicious=6)
    other = game.Count(150, 0, [(3.0, 4, 0), (5.0, 0, 0)], boots=0, retests=0, suspicious=1)
    row = game.summary("engine", "case", [one, other])

    assert (row.engine, row.case, row.labs) == ("engine", "case", 2)
    assert row.false_alerts == 1
    assert row.hits == {"3": 1, "5": 0.5}
    assert row.delay_nights == 2
    assert row.localisation_nights == pytest.approx(1 / 3, abs=0.01)
    assert (row.retest_boots, row.retests, row.suspicious) == (30, 4, 7)


def test_without_a_hit_there_is_no_delay() -> None:
    row = game.summary("engine", "case", [game.Count(300, told=[(3.0, None, 0)])])

    assert (row.hits, row.delay_nights, row.localisation_nights) == ({"3": 0}, None, None)


# ------------------------------------------------------------------------------------- playing


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six series of 60 nights; of the four that change, one falls by 5 and one by 10 %."""
    monkeypatch.setattr(game, "_SERIES", 6)
    monkeypatch.setattr(game, "_NIGHTS", 60)
    monkeypatch.setattr(game, "_CHANGED", 4)


@pytest.mark.long
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kind", ["unimodal", "bimodal"])
def test_the_watch_finds_what_is_clear_and_asks_for_boots(kind: str) -> None:
    found = game.play_ours(kind, 1)
    told = {round(size): (delay, off) for size, delay, off in found.told}

    assert list(told) == [2, 3, 5, 10]
    assert found.series_nights == 6 * 30
    delay, off = told[10]
    assert delay is not None
    assert delay <= 3
    assert off <= 1
    assert found.false <= 1
    assert 0 < found.retests <= found.suspicious + 20
    assert found.boots >= 6


def test_a_false_suspicion_does_not_hide_a_later_drop() -> None:
    """A pair of images that differ by luck is given up: 15 % are told, whatever was before."""
    for seed in range(6):
        lab = Lab("unimodal", seed, 1, 60, 0)
        lab.image[0, 31] = -0.03
        watch = ours.Watch(lab)
        lab.changes[0] = Change(45, math.log(0.85))
        alerts = [(night, since) for night in range(60) for _, since in watch.night(night)]

        assert (45, 45) in alerts


@pytest.mark.long
@pytest.mark.usefixtures("tiny")
def test_the_watch_depends_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game, "_SERIES", 4)
    monkeypatch.setattr(game, "_NIGHTS", 48)
    assert game.play_ours("unimodal", 2) == game.play_ours("unimodal", 2)
    assert game.play_ours("unimodal", 2) != game.play_ours("unimodal", 3)


@pytest.mark.usefixtures("tiny")
def test_a_rule_is_played_without_boots_of_its_own() -> None:
    """Ministat finds the drop of 10 %, and much else."""
    found = game.play_rule(RULES["ministat 95 % (rule)"], "unimodal", 1)
    told = {round(size): delay for size, delay, _ in found.told}

    assert told[10] is not None
    assert found.false > 5
    assert (found.boots, found.retests, found.suspicious) == (0, 0, 0)


def test_a_rule_starts_anew_after_its_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it named is the first night of what it sees next."""
    seen = []

    def rule(nights: list[Floats]) -> int | None:
        seen.append(len(nights))
        return 2 if len(nights) == 5 else None

    monkeypatch.setattr(game, "_SERIES", 1)
    monkeypatch.setattr(game, "_NIGHTS", 9)
    monkeypatch.setattr(game, "_CHANGED", 0)
    game.play_rule(rule, "unimodal", 1)  # type: ignore[arg-type]  # a list is a sequence

    assert seen == [1, 2, 3, 4, 5, 4, 5, 4, 5]


def test_what_was_told_is_the_new_baseline() -> None:
    """One drop is told once."""
    lab = Lab("unimodal", 4, 1, 60, 0)
    lab.changes[0] = Change(35, math.log(0.85))
    watch = ours.Watch(lab)
    alerts = [(night, since) for night in range(60) for _, since in watch.night(night)]

    assert alerts == [(35, 35)]
    assert watch.boots >= 6


# ----------------------------------------------------------------------------------- the command


def test_an_engine_that_is_not_there_is_named() -> None:
    ended = CliRunner().invoke(game.main, ["--engine", "nobody"])

    assert ended.exit_code == 1
    assert "there is no engine 'nobody'; there is netbisect, ministat" in ended.stderr


def test_the_table_of_the_page_has_a_line_for_every_rule() -> None:
    """And what was never told has no delay."""
    row = {
        "engine": "a rule",
        "case": "unimodal",
        "labs": 2,
        "false_alerts": 0.125,
        "hits": {"2": 0.5, "3": 1.0, "5": 1.0, "10": 1.0},
        "delay_nights": None,
        "localisation_nights": None,
        "retest_boots": 81.2,
    }
    lines = page.table([row], 1)

    assert lines[0] == "Seeds 1 to 2: 2 labs of each case."
    assert "| `unimodal` | a rule | 0.12 | 0.50 | 1.00 | 1.00 | 1.00 | - | - | 81 |" in lines
