"""Commands and metrics of a scenario file."""

from __future__ import annotations

from pathlib import Path

import pytest

from netbisect.workers.config.scenario import load_scenario, load_scenario_folder, title_of_series
from netbisect.workers.config.toml import FileError

GOOD = """
name = "mine"
title = "my benchmark"
[[metrics]]
name = "cpu"
title = "CPU use"
unit = "%"
better = "lower"
[[metrics]]
name = "speed"
unit = "bit/s"
better = "higher"
[measure]
on = "dut"
file = "measure.sh"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "scenario.toml").write_text(GOOD)
    (place / "measure.sh").write_text("echo '{}'\n")
    return place


def test_folder_is_loaded_by_path_and_by_name_with_titles_of_metrics(folder: Path) -> None:
    scenario = load_scenario_folder(folder)
    assert scenario.measure.run == "echo '{}'\n"
    assert scenario.series == ("mine~cpu.percent.lower", "mine~speed.bit-per-s")
    assert load_scenario("mine", [folder.parent]) == scenario
    titles = [title_of_series(one, [folder.parent]) for one in scenario.series]
    assert titles == ["CPU use, my benchmark", "speed, my benchmark"]
    with pytest.raises(FileError, match="scenario 'mine' has no metric 'cpu' in 'ms', lower"):
        title_of_series("mine~cpu.ms.lower", [folder.parent])


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('unit = "%"\n', "", "metrics[0].unit: this key is missing"),
        ('unit = "%"', 'unit = "per cent"', "metrics[0]: unit 'per cent': expected letters"),
        ('"lower"', '"less"', "metrics[0]: better 'less': expected 'higher' or 'lower'"),
        ('name = "speed"', 'name = "cpu"', "two metrics are named 'cpu'"),
        ('on = "dut"', 'on = "router"', "on 'router': expected dut, generator, receiver"),
        ('file = "measure.sh"', "", "expected either run or file"),
        ('"measure.sh"', '"other.sh"', "other.sh: cannot be read"),
        ('name = "mine"', 'name = "other"', "expected 'mine', the name of the folder"),
        (GOOD[GOOD.index("[measure]") :], "", "metrics: expected the table [measure]"),
    ],
)
def test_errors_name_the_key(folder: Path, right: str, wrong: str, message: str) -> None:
    (folder / "scenario.toml").write_text(GOOD.replace(right, wrong))
    with pytest.raises(FileError) as error:
        load_scenario_folder(folder)
    assert message in str(error.value)
