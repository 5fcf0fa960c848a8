"""Names of revisions are taken apart without any tree."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netbisect.store.git.grammar import (
    LONGEST,
    CountedName,
    Hash,
    Moment,
    Name,
    Reading,
    Reference,
    RevisionError,
    Single,
    Subversion,
    parse,
)

BRANCHES = st.sampled_from(["main", "stable/14", "releng/14.2", "projects/a-b_c", "user/x/y.z"])
NUMBERS = st.integers(0, 999_999_999)
DIGITS = st.text("0123456789abcdef", min_size=4, max_size=40)
ALPHABET = "rnD0123456789abcdefg-/.@~^:{}_+TZ \t\n*\\\"'$;`|<>&%\u0430\u2024\uff0e\u202e\x00\x1b"


def readings(text: str) -> tuple[Reading, ...]:
    """All readings of one commit's name."""
    name = parse(text)
    assert isinstance(name, Single)
    return name.readings


def tried(text: str) -> Name | RevisionError:
    """What a text is, or why it is nothing."""
    try:
        return parse(text)
    except RevisionError as error:
        return error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r311849", [Subversion(311849)]),
        ("r7", [Subversion(7)]),
        ("311849", [Subversion(311849), Hash("311849")]),
        ("stable/10@295802", [Subversion(295802, "stable/10")]),
        ("stable/10@r295802", [Subversion(295802, "stable/10")]),
        ("head@7", [Subversion(7, "head")]),
        ("123", []),
        ("n302145", [CountedName(302145)]),
        ("n302145-0a1b2c3d", [CountedName(302145, "", "0a1b2c3d")]),
        ("main-n302145-0A1B2C3D", [CountedName(302145, "main", "0a1b2c3d")]),
        ("stable/14-n267", [CountedName(267, "stable/14")]),
        ("stable/14@n267", [CountedName(267, "stable/14")]),
        ("0a1b", [Hash("0a1b")]),
        ("DEADBEEF", [Hash("deadbeef")]),
        ("d5180", [Hash("d5180")]),
        ("0a1", []),
        ("0" * 41, []),
        ("release/14.2.0", []),
        ("vendor/llvm-project/llvmorg-19.1.7-0-gcd708029e0b2", []),
        ("2026-11-01", [Moment("2026-11-01", 1793577599)]),
        ("stable/14@2026-11-01", [Moment("2026-11-01", 1793577599, "stable/14")]),
        ("2026-11-01T12:00Z", [Moment("2026-11-01T12:00Z", 1793534400)]),
        ("2026-11-01T12:00:07+02:00", [Moment("2026-11-01T12:00:07+02:00", 1793527207)]),
    ],
)
def test_a_name_is_read_in_all_ways_it_can_be(text: str, expected: list[Reading]) -> None:
    """Whatever else it may be, it may be a branch or a tag."""
    assert list(readings(text)) == [*expected, Reference(text)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a name of a revision is missing, such as main, r311849 or 0a1b2c3d"),
        ("   ", "is missing"),
        ("--upload-pack=touch", "looks like an option"),
        ("-n1", "looks like an option"),
        ("main@{yesterday}", "~ and a number of steps are understood"),
        ("@{-1}", "~ and a number of steps are understood"),
        ("main^", "~ and a number of steps are understood"),
        ("main^{tree}", "~ and a number of steps are understood"),
        (":/fix", "a path in a commit is no revision"),
        ("main:sys/net/if.c", "a path in a commit is no revision"),
        ("main~", "after ~ comes one number of steps back, as in main~3"),
        ("main~~", "after ~ comes one number"),
        ("main~1~1", "after ~ comes one number"),
        ("main~-1", "after ~ comes one number"),
        ("~3", "after ~ comes one number"),
        ("main stable/14", "holds ' ', which names of revisions do not"),
        ("main;reboot", "holds ';'"),
        ("$(reboot)", "holds '$'"),
        ("refs/heads/*", "holds '*'"),
        ("<b>", "holds '<'"),
        ("a\x00b", "holds U+0000"),
        ("m\u0430in", "'m\\u0430in' holds CYRILLIC SMALL LETTER A"),
        ("main\u202e", "holds RIGHT-TO-LEFT OVERRIDE"),
        ("main\u2025stable", "holds TWO DOT LEADER"),
        ("r\u0663\u0663", "holds ARABIC-INDIC DIGIT THREE"),
        ("x" * 201, "201 characters; a name of a revision has 200 at most"),
        ("a...b", "a range has two dots, as in a..b"),
        ("a..", "a range has two ends, as in r311848..r313448"),
        ("..b", "a range has two ends"),
        ("a..b..c", "a range has two ends"),
        ("D5180..main", "D5180 is a review, and no end of a range"),
        ("D5180@", "after @ comes the revision that the patch is for"),
        ("D5180@D5181", "after @ comes the revision that the patch is for"),
        ("@295802", "before @ comes a branch, as in stable/10@295802"),
        ("2026-02-30", "2026-02-30 is no day of the calendar"),
        ("0000-01-01", "is no day of the calendar"),
        ("2026-11-01T25:00Z", "2026-11-01T25:00Z is no time of a day"),
        ("2026-11-01T12:00", "of which zone? 2026-11-01T12:00Z is by universal time"),
        ("main-n302145-0a1b2c3d-dirty", "was built from changed sources"),
    ],
)
def test_what_is_no_name_gets_one_sentence(text: str, sentence: str) -> None:
    """It says what was wrong; it can be shown on any terminal."""
    with pytest.raises(RevisionError, match=re.escape(sentence)) as caught:
        parse(text)

    assert str(caught.value).isprintable()
    assert (caught.value.candidates, caught.value.unknown) == ((), False)


@given(st.text(ALPHABET, max_size=30) | st.text(max_size=30))
@example("9999-12-31")
@example("0001-01-01T00:00+14:00")
@example("9999-12-31T23:59:59-23:59")
@example("x" * (LONGEST + 1))
def test_any_text_is_a_name_or_gets_a_sentence(text: str) -> None:
    """Nothing else is raised, a name is printed as it is read, and it is plain ASCII."""
    name = tried(text)
    if isinstance(name, RevisionError):
        assert str(name).isprintable()
        return
    assert parse(str(name)) == name
    assert str(name) == text.strip(" \t\r\n")
    assert re.fullmatch(r"[\w./+@:~-]+", str(name), re.ASCII)


@given(
    st.builds(Hash, DIGITS)
    | st.builds(Subversion, NUMBERS, st.just(""))
    | st.builds(Subversion, NUMBERS, BRANCHES)
    | st.builds(CountedName, NUMBERS, st.just("") | BRANCHES, st.just("") | DIGITS)
    | st.builds(Reference, BRANCHES)
)
def test_every_reading_is_read_back_from_what_it_prints(reading: Reading) -> None:
    """So a candidate that is listed can be typed."""
    assert reading in readings(str(reading))
