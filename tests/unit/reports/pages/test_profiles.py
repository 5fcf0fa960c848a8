"""Profiles on pages."""

from __future__ import annotations

import pytest

from netbisect.bisect.model.entities import Profile
from netbisect.bisect.model.profile_stacks import Stacks, total
from netbisect.reports.model.profiles import ProfilePair, StoredProfile
from netbisect.reports.pages.profiles import grown, sections
from netbisect.reports.site.requests import profile


def stored_profile(stacks: Stacks, revision: str = "r1", lost: int | None = None) -> StoredProfile:
    profile = Profile(revision, "k", "apu", "fwd4", "cycles", 6e5, total(stacks), lost, 1.0, 30.0)
    return StoredProfile(profile, stacks)


def compared(before: Stacks, after: Stacks) -> ProfilePair:
    return ProfilePair(("r1", "r2"), (stored_profile(before), stored_profile(after, "r2")))


def label(revision: str) -> str:
    return f"n-{revision}"


def test_table_has_the_ten_functions_that_grew_most() -> None:
    """Functions that shrank or grew by less than 0.1 % are left out."""
    before = {(f"f{i}",): 1000 for i in range(30)}
    after = {(f"f{i}",): 1000 + (20 * i if i < 20 else 0) for i in range(30)}
    names = [one.function for one in grown(stored_profile(before), stored_profile(after))]

    assert names == [f"f{i}" for i in range(19, 9, -1)]
    assert grown(stored_profile(before), stored_profile(before)) == []


def test_flame_graphs_of_several_culprits_share_the_page_size() -> None:
    many = {
        tuple(f"function_{i >> (12 - depth)}" for depth in range(13)): 1 + i % 7
        for i in range(5000)
    }
    found = sections((compared(many, many), compared(many, many)), label)
    drawings = [picture.drawing() for section in found for picture in section.pictures]

    assert len(drawings) == 6
    assert sum(map(len, drawings)) < 130_000
    assert len(profile(1, "One", compared(many, many), label).html()) < 300_000


def test_single_kernel_has_a_flame_graph_and_no_table() -> None:
    pair = ProfilePair(("r1",), (stored_profile({("a",): 1234}, lost=5),))
    text = profile(1, "Alone", pair, label).html()

    assert text.count('class="fg"') == 1
    assert "1,234 samples (5 lost) by cycles in 30 s at 600 kpps" in text
    assert "<table>" not in text


@pytest.mark.parametrize(
    ("why", "sentence"),
    [
        ("pmcstat <failed>", "No profile of n-r1 and n-r2: pmcstat &lt;failed&gt;."),
        ("", "The kernels are being profiled."),
    ],
)
def test_missing_profile_has_a_reason(why: str, sentence: str) -> None:
    pair = ProfilePair(("r1", "r2"), (), why) if why else None
    text = profile(1, "None", pair, label).html()

    assert sentence in text
    assert ("No profile" in text) is (pair is not None)
    assert "<svg" not in text
