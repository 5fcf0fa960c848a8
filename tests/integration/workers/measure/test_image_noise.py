"""Image noise: the same work at other addresses, and how much of the scatter that makes."""

from __future__ import annotations

import json
import math
import random
import re
import signal
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netbisect.bisect.stats.variance_components import components, need
from netbisect.workers.cli import main

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab


def draw(luck: random.Random, sizes: list[int], image: float, boot: float) -> list[list[float]]:
    groups = []
    for size in sizes:
        offset = luck.gauss(13.7, image)
        groups.append([luck.gauss(offset, boot) for _ in range(size)])
    return groups


# ------------------------------------------------------------------------------------ the numbers


def test_the_estimate_is_that_of_the_analysis_of_variance() -> None:
    """For equal numbers of boots: MSW, and (MSB - MSW) / n."""
    groups = draw(random.Random(1), [3] * 8, 0.01, 0.008)
    within = statistics.mean(statistics.variance(group) for group in groups)
    between = statistics.variance([statistics.mean(group) for group in groups])
    found = components(groups)
    assert found.boot.sd == pytest.approx(math.sqrt(within), rel=1e-4)
    assert found.image.sd == pytest.approx(math.sqrt(between - within / 3), rel=1e-4)
    assert found.level == pytest.approx(statistics.mean(map(statistics.mean, groups)))
    assert (found.images, found.boots) == (8, 24)


@pytest.mark.long
@pytest.mark.parametrize("image", [0.0, 0.01])
def test_nine_intervals_of_ten_hold_the_truth(image: float) -> None:
    """Six images, two to four boots each; of 60 tries, give or take what chance gives."""
    luck = random.Random(2)
    held_image = held_boot = 0
    for _ in range(60):
        found = components(draw(luck, [2, 3, 3, 4, 2, 3], image, 0.008))
        held_image += found.image.low <= image <= found.image.high
        held_boot += found.boot.low <= 0.008 <= found.boot.high
    assert held_image >= 48
    assert held_boot >= 48


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[1.0, 2.0]], "two images or more are needed"),
        ([[1.0], [2.0]], "one of them with two: there is 1, 1"),
        ([[1.0, math.nan], [2.0]], "a value is no number"),
        ([[1.0, 1.0], [1.0]], "alike to the last digit"),
    ],
)
def test_too_few_boots_are_reported(groups: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        components(groups)


def test_required_boots_follow_from_both_scatters() -> None:
    """Checked by hand: z = 2.326 + 1.282 = 3.608; 5 % needs a variance of 0.000096 a side."""
    assert need(0.05, 0.0, 0.01).boots == 2
    assert need(0.05, 0.008, 0.01).boots == 4
    assert need(0.05, 0.01, 0.01).boots is None
    assert need(0.05, 0.01, 0.01).images == 3
    with pytest.raises(ValueError, match="expected a positive ln ratio"):
        need(0.0, 0.01, 0.01)


# ------------------------------------------------------------------------------------ the command

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    c2558: RunningLab,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Run]:
    def run(*arguments: str) -> tuple[int, str, str]:
        lab = str(c2558.files.lab)
        status = main.main(["--lab", lab, "image-noise", "--testbed", "c2558", *arguments])
        captured = capfd.readouterr()
        return status, captured.out, captured.err

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.chdir(tmp_path)
    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.mark.long
def test_the_command_finds_the_noise_of_the_testbed(run: Run, c2558: RunningLab) -> None:
    """1 % between images and 0.84 % between boots are what this machine has."""
    revision = c2558.tree.revisions[10]
    status, out, _ = run(
        *("--revision", revision, "--builds", "5", "--boots", "2"),
        *("--scenario", "inet4-forwarding", "--json"),
    )
    assert status == 0
    report = json.loads(out)
    assert (report["testbed"], report["revision"]) == ("c2558", revision)
    found = report["scenarios"]["inet4-forwarding"]
    assert (found["images"], found["boots"]) == (5, 10)
    assert [len(image) for image in found["samples"]] == [2] * 5
    assert 0.3 < found["image_percent"]["high"] < 6
    assert 0.2 < found["boot_percent"]["sd"] < 2.5
    assert found["needs"][0]["images"] > found["needs"][-1]["images"]


@pytest.mark.long
def test_the_command_prints_a_table(run: Run, c2558: RunningLab) -> None:
    status, out, err = run(
        *("--revision", c2558.tree.revisions[10], "--builds", "2", "--boots", "2"),
        *("--scenario", "inet4-forwarding", "--scenario", "inet4-cpu"),
    )
    assert status == 0
    assert out.startswith("image noise of c2558 at ")
    assert re.search(r"^inet4-forwarding: 2 images, 4 boots, [\d,]+ pps$", out, re.MULTILINE)
    assert re.search(
        r"^inet4-cpu~cpu\.percent\.lower: 2 images, 4 boots, [\d.]+ %$", out, re.MULTILINE
    )
    assert "between images  sd " in out
    assert "(90 % interval " in out
    assert err.index("boot 1 of 2, layout 2") < err.index("boot 2 of 2, layout 2")
    assert err.index("boot 2 of 2, layout 2") < err.index("boot 2 of 2, layout 1")


def test_a_linker_without_layouts_is_reported(run: Run, c2558: RunningLab) -> None:
    """Here a make that forgets what it was asked for; every build is the same image."""
    builder = c2558.lab.builders[0]
    text = c2558.files.lab.read_text()
    make = f'directory = "{builder.directory.name}"\nmake = ["env", "-u", "LDFLAGS", "make"]\n'
    changed = text.replace(f'directory = "{builder.directory.name}"\n', make)
    assert changed != text
    c2558.files.lab.write_text(changed)
    try:
        status, out, err = run("--revision", c2558.tree.revisions[10], "--builds", "2")
    finally:
        c2558.files.lab.write_text(text)
    assert (status, out) == (4, "")
    assert "two layouts gave the same image: the linker of this tree has no" in err


def test_a_build_failure_is_reported(run: Run, c2558: RunningLab) -> None:
    revision = c2558.tree.revisions[c2558.place_of("unbuildable")]
    status, out, err = run("--revision", revision, "--builds", "2")
    assert status == 3
    assert json.loads(out)["is"] == "dud"
    assert "no image noise: " in err
