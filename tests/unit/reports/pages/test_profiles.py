"""What pages show of profiles, whatever functions are called and however many there are."""

from __future__ import annotations

import pytest

from netbisect.bisect.model.entities import Profile
from netbisect.bisect.model.profile_stacks import Stacks, total
from netbisect.reports.model.profiles import ProfilePair, StoredProfile
from netbisect.reports.pages.profiles import grown, sections
from netbisect.reports.site.requests import profile


def taken(stacks: Stacks, revision: str = "r1", lost: int | None = None) -> StoredProfile:
    profile = Profile(revision, "k", "apu", "fwd4", "cycles", 6e5, total(stacks), lost, 1.0, 30.0)
    return StoredProfile(profile, stacks)


def compared(before: Stacks, after: Stacks) -> ProfilePair:
    return ProfilePair(("r1", "r2"), (taken(before), taken(after, "r2")))


def label(revision: str) -> str:
    return f"n-{revision}"


def test_the_table_has_the_ten_functions_that_grew_most_and_none_that_shrank() -> None:
    """Those that a table with one digit cannot tell from nothing are left out."""
    before = {(f"f{i}",): 1000 for i in range(30)}
    after = {(f"f{i}",): 1000 + (20 * i if i < 20 else 0) for i in range(30)}
    names = [one.function for one in grown(taken(before), taken(after))]

    assert names == [f"f{i}" for i in range(19, 9, -1)]
    assert grown(taken(before), taken(before)) == []


def test_flame_graphs_of_several_culprits_share_the_page_size() -> None:
    """However many functions there are."""
    many = {
        tuple(f"function_{i >> (12 - depth)}" for depth in range(13)): 1 + i % 7
        for i in range(5000)
    }
    found = sections((compared(many, many), compared(many, many)), label)
    drawings = [picture.drawing for section in found for picture in section.pictures]

    assert len(drawings) == 6
    assert sum(map(len, drawings)) < 130_000
    assert len(profile(1, "One", compared(many, many), label).html()) < 300_000


def test_one_kernel_alone_has_its_flame_graph() -> None:
    """And nothing to be compared with."""
    text = profile(1, "Alone", ProfilePair(("r1",), (taken({("a",): 1234}, lost=5),)), label).html()

    assert text.count('class="fg"') == 1
    assert "1,234 samples (5 lost) by cycles in 30 s at 600 kpps" in text
    assert "<table>" not in text


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (
            ProfilePair(("r1", "r2"), (), "pmcstat <failed>"),
            "No profile of n-r1 and n-r2: pmcstat &lt;failed&gt;.",
        ),
        (None, "The profiles are being taken."),
    ],
)
def test_a_missing_profile_has_a_reason(pair: ProfilePair | None, sentence: str) -> None:
    text = profile(1, "None", pair, label).html()

    assert sentence in text
    assert ("No profile" in text) is (pair is not None)
    assert "<svg" not in text
