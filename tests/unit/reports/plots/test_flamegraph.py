"""Flame graphs: valid SVG for any stacks, widths and colours."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import netbisect

from netbisect.bisect.model import profile_stacks
from netbisect.bisect.model.profile_stacks import Stacks
from netbisect.reports.plots import flamegraph

SVG = "{http://www.w3.org/2000/svg}"
CALLERS = "fork_exit;ithread_loop;igb_msix_que;"
BEFORE = profile_stacks.parse(
    f"{CALLERS}igb_rxeof 30\n{CALLERS}igb_rxeof;ether_input 20\n"
    f"{CALLERS}igb_rxeof;ether_input;ip_input;ip_tryforward 40\nfork_exit;sched_idletd 10\n"
)
NAMES = st.text(min_size=1, max_size=30)
PROFILES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=12).map(tuple), st.integers(1, 10**18), min_size=1
)


def boxes(svg: str | bytes) -> dict[str, ET.Element]:
    """The rectangles by title; raises ParseError for invalid XML."""
    root = ET.fromstring(svg)  # noqa: S314 - trusted
    found = {}
    for group in root.iter(f"{SVG}g"):
        title, box = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None
        assert title.text
        assert box is not None
        found[title.text] = box
    return found


def box_of(svg: str | bytes, name: str) -> ET.Element:
    [box] = [box for title, box in boxes(svg).items() if title.startswith(f"{name}:")]
    return box


def flame(profile: Stacks, **more: int) -> str:
    return flamegraph.draw([profile], name="one", title="A profile", **more)


def difference(before: Stacks, after: Stacks) -> str:
    return flamegraph.draw([before, after], name="two", title="Two profiles")


def test_width_of_a_box_is_its_share_and_callees_are_above_their_callers() -> None:
    """The outermost function is at the bottom."""
    svg = flame(BEFORE)
    whole, caller, inner = (
        [float(box_of(svg, name).attrib[key]) for key in ("x", "y", "width")]
        for name in ("all", "ether_input", "ip_input")
    )

    assert whole[2] == 900
    assert caller[2] == pytest.approx(900 * 0.6, abs=0.1)
    assert inner[2] == pytest.approx(900 * 0.4, abs=0.1)
    assert whole[1] > caller[1] > inner[1]
    assert caller[0] <= inner[0]
    assert inner[0] + inner[2] <= caller[0] + caller[2] + 0.1
    assert "ether_input: 60.0 %, itself 20.0 %, 60 samples" in boxes(svg)


def test_growth_is_relative_to_the_number_of_samples() -> None:
    """Profiles of 100 and 150 samples are scaled to equal totals."""
    more = {stack: count + 50 * ("ip_input" in stack) for stack, count in BEFORE.items()}
    svg = difference(BEFORE, more)

    assert box_of(svg, "ip_tryforward").attrib["class"] == "h5"
    assert box_of(svg, "igb_rxeof").attrib["class"].startswith("c")
    assert box_of(svg, "ip_input").attrib["class"] == "n"
    titles = "\n".join(boxes(svg))
    assert "ip_tryforward: 40.0 % before, 60.0 % after" in titles
    assert "+20.0 percentage points in all places" in titles
    doubled = difference(BEFORE, {stack: 2 * count for stack, count in BEFORE.items()})
    assert {box.attrib["class"] for box in boxes(doubled).values()} == {"n"}


@given(before=PROFILES, after=PROFILES)
@settings(max_examples=25)
def test_any_function_name_gives_valid_xml(before: Stacks, after: Stacks) -> None:
    """Names may contain control characters, markup and lone surrogates; counts may be huge."""
    for svg in (flame(before), difference(before, after)):
        assert any(title.startswith("all") for title in boxes(flamegraph.document(svg)))


@pytest.mark.long
def test_drawing_of_many_stacks_has_less_than_300_kb() -> None:
    """Only the widest boxes are drawn; long names do not increase the limit."""
    found = {
        tuple(f"function_{i >> (15 - depth)}_{'x' * 200}" for depth in range(16)): 1 + i % 9
        for i in range(50_000)
    }
    svg = flamegraph.document(flame(found))

    assert len(svg) < 300_000
    assert len(boxes(svg)) > 200
    assert len(flame(found, most=20_000).encode()) <= 20_000


def run(*arguments: object, status: int = 0) -> str:
    done = netbisect("report", "flamegraph", *arguments)
    assert done.exit_code == status, done.output
    return done.output


def test_command_draws_one_profile_or_the_difference_of_two(tmp_path: Path) -> None:
    """Inputs are folded stacks or callgraphs of pmcstat."""
    one, two, out = tmp_path / "one.folded", tmp_path / "two.graph", tmp_path / "out.svg"
    one.write_text(profile_stacks.folded(BEFORE))
    two.write_text("@ cycles [3 samples]\n\n100.0%  [3]  ip_input @ /boot/kernel/kernel\n")

    assert "out.svg: 100 samples" in run(one, "-o", out)
    assert box_of(out.read_bytes(), "ip_tryforward").attrib["class"].startswith("f")
    assert "100 samples and 3 samples" in run(one, two, "-o", out, "--title", "<both>")
    assert b"&lt;both&gt;</title>" in out.read_bytes()
    out.unlink()
    one.write_bytes(b"\xff\xfe\x00")
    assert f"{one}: line 1: " in run(one, "-o", out, status=1)
    assert not out.exists()
