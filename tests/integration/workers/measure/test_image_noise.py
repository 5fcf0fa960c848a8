"""Measurement of image noise with several layouts of one revision."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
from lab_fixtures import LabCommand, RunningLab

from netbisect.bisect.model import serialization


@pytest.fixture
def run(c2558: RunningLab, lab_command: LabCommand) -> LabCommand:
    return partial(lab_command, c2558.files.lab, "image-noise", "--testbed", "c2558")


@pytest.mark.long
def test_command_estimates_the_noise_of_the_testbed(run: LabCommand, c2558: RunningLab) -> None:
    """The simulated machine has 1 % noise between images and 0.84 % between boots."""
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
def test_measurement_resumes_without_the_layout_that_fails(
    run: LabCommand, c2558: RunningLab, tmp_path: Path
) -> None:
    file = tmp_path / "images.jsonl"
    order = "--revision", c2558.tree.revisions[10], "-o", str(file), "--boots", "2"
    order = *order, "--scenario", "inet4-forwarding", "--scenario", "inet4-cpu"
    for machine, fault, boots in ("c2558-dut", "link-flaps", 6), ("c2558-gen", "slow-sender", 3):
        c2558.control("break", machine, fault)
        status, out, err = run(*order, "--builds", "2")
        assert (status, out, err.count(": up after")) == (4, "", boots)
        assert ("layout 1 is left out: 3 boots in a row failed: " in err) == (boots > 3)
        c2558.mend()
    kernels = file.read_text().splitlines()[:2]
    assert [serialization.loads(line).layout for line in kernels] == [1, 2]

    status, out, err = run(*order, "--builds", "2")
    assert status == 0
    assert "checking out" not in err
    assert re.search(r"^inet4-forwarding: 2 images, 4 boots, [\d,]+ pps$", out, re.MULTILINE)
    assert re.search(  # it sends less than the slow sender can
        r"^inet4-cpu~cpu\.percent\.lower: 2 images, 7 boots, [\d.]+ %$", out, re.MULTILINE
    )
    assert "(90 % interval " in out
    assert err.index("boot 1 of 2, layout 2") < err.index("boot 2 of 2, layout 2")
    assert err.index("boot 2 of 2, layout 2") < err.index("boot 2 of 2, layout 1")
    before = file.read_text()
    assert run(*order, "--builds", "2")[1] == out
    assert file.read_text() == before
    order = "--revision", c2558.tree.revisions[9], *order[2:]
    assert ", line 1: images of " in run(*order, "--builds", "2")[2]


def test_a_linker_without_layouts_is_reported(run: LabCommand, c2558: RunningLab) -> None:
    """Make without LDFLAGS builds the same image for every layout."""
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


def test_a_build_failure_is_reported(run: LabCommand, c2558: RunningLab) -> None:
    revision = c2558.tree.revisions[c2558.place_of("unbuildable")]
    status, out, err = run("--revision", revision, "--builds", "2")
    assert status == 3
    assert json.loads(out)["is"] == "dud"
    assert "no image noise: " in err
