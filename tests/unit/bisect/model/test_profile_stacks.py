"""Callgraphs, folded stacks and shares of functions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.model import profile_stacks

CALLGRAPH = """\
@ cpu_clk_unhalted.thread [40 samples]

55.00%  [22]      ip_tryforward @ /boot/kernel.nb-1/kernel
 100.0%  [22]       ip_input
  90.91%  [20]        ether_demux
   75.00%  [15]         ether_nh_input
  09.09%  [2]         netisr_dispatch_src

37.50%  [15]      pf_test @ /boot/kernel.nb-1/pf.ko
 100.0%  [15]       0xffffffff823a1b2c
  100.0%  [15]        pfil_run_hooks @ /boot/kernel.nb-1/kernel

07.50%  [3]       0xffffffff80c01234
"""

FRAMES = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp", "Zs"), blacklist_characters=";"),
    min_size=1,
)
PROFILES = st.dictionaries(
    st.lists(FRAMES, min_size=1).map(tuple), st.integers(1, 10**18 - 1), min_size=1, max_size=8
)


def test_callgraph_is_inverted() -> None:
    assert profile_stacks.parse(CALLGRAPH) == {
        ("ether_nh_input", "ether_demux", "ip_input", "ip_tryforward"): 15,
        ("ether_demux", "ip_input", "ip_tryforward"): 5,
        ("netisr_dispatch_src", "ip_input", "ip_tryforward"): 2,
        ("pfil_run_hooks", "[pf.ko]", "pf_test"): 15,
        ("[kernel]",): 3,
    }


@given(PROFILES)
@settings(max_examples=20)
def test_folded_stacks_survive_a_round_trip(profile: dict[profile_stacks.Stack, int]) -> None:
    assert profile_stacks.parse(profile_stacks.folded(profile)) == profile


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no sample"),
        ("a;b\n", "line 1: 'a;b'"),
        ("a;b 1\n 12\n", "line 2: '12'"),
        (f"a;b {'9' * 5000}\n", "line 1: 'a;b 999"),
        ("@ cycles [2 samples]\nhello\n", "line 2: 'hello'"),
        ("@ cycles [2 samples]\n  10.00% [1] b\n", "does not belong to the line above"),
        ("@ a [2 samples]\n99.00% [1] b\n 99.00% [7] c\n", "does not belong to the line above"),
        ("@ a [1 samples]\n100.0% [1] b\n@ c [1 samples]\n100.0% [1] b\n", "a and c"),
    ],
)
def test_invalid_text_is_rejected_with_its_line(text: str, message: str) -> None:
    with pytest.raises(profile_stacks.StacksError, match=message):
        profile_stacks.parse(text)


def test_deep_stack_is_parsed() -> None:
    lines = [f"{' ' * depth}100.0% [2] f{depth}" for depth in range(10_000)]
    [(stack, count)] = profile_stacks.parse("@ a [2 samples]\n" + "\n".join(lines)).items()

    assert (len(stack), stack[-1], count) == (10_000, "f0", 2)


def test_shares_exclude_callees() -> None:
    before = {("a", "b"): 50, ("a",): 30, ("c",): 20}
    after = {("a", "b"): 140, ("a",): 60}
    found = profile_stacks.share_shifts(before, after)

    assert [one.function for one in found] == ["b", "a", "c"]
    assert [one.change for one in found] == pytest.approx([0.2, 0.0, -0.2])
    assert (found[0].before, found[0].after) == pytest.approx((0.5, 0.7))
