"""Grammar of revision names."""

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
    """The readings of a name of one commit."""
    name = parse(text)
    assert isinstance(name, Single)
    return name.readings


def parsed_or_error(text: str) -> Name | RevisionError:
    try:
        return parse(text)
    except RevisionError as error:
        return error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r311849", [Subversion(311849)]),
        ("311849", [Subversion(311849), Hash("311849")]),
        ("stable/10@295802", [Subversion(295802, "stable/10")]),
        ("stable/10@r295802", [Subversion(295802, "stable/10")]),
        ("head@7", [Subversion(7, "head")]),
        ("123", []),
        ("n302145", [CountedName(302145)]),
        ("n302145-0a1b2c3d", [CountedName(302145, "", "0a1b2c3d")]),
        ("main-n302145-0A1B2C3D", [CountedName(302145, "main", "0a1b2c3d")]),
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
def test_all_readings_of_a_name(text: str, expected: list[Reading]) -> None:
    """Every name may also be a branch or a tag."""
    assert list(readings(text)) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected the name of a revision, such as main, r311849 or 0a1b2c3d"),
        ("--upload-pack=touch", "not an option"),
        ("main@{yesterday}", "expected ~ and a number, as in main~3"),
        ("main^", "expected ~ and a number, as in main~3"),
        (":/fix", "expected a revision without a path"),
        ("main:sys/net/if.c", "expected a revision without a path"),
        ("main~", "expected one number after ~, as in main~3"),
        ("main~-1", "expected one number after ~"),
        ("~3", "expected one number after ~"),
        ("main stable/14", "unexpected ' '"),
        ("$(reboot)", "unexpected '$'"),
        ("refs/heads/*", "unexpected '*'"),
        ("a\x00b", "unexpected U+0000"),
        ("m\u0430in", "'m\\u0430in': unexpected CYRILLIC SMALL LETTER A"),
        ("main\u202e", "unexpected RIGHT-TO-LEFT OVERRIDE"),
        ("main\u2025stable", "unexpected TWO DOT LEADER"),
        ("r\u0663\u0663", "unexpected ARABIC-INDIC DIGIT THREE"),
        ("x" * 201, "expected at most 200 characters, found 201"),
        ("a...b", "expected two dots in a range, as in a..b"),
        ("a..", "expected two ends of a range, as in r311848..r313448"),
        ("a..b..c", "expected two ends of a range"),
        ("D5180..main", "expected commits as ends of a range, found the review D5180"),
        ("D5180@", "expected the base of the patch, a revision, after @"),
        ("@295802", "expected a branch before @, as in stable/10@295802"),
        ("2026-02-30", "2026-02-30: expected a date"),
        ("0000-01-01", "expected a date"),
        ("2026-11-01T25:00Z", "2026-11-01T25:00Z: expected a time of day"),
        ("2026-11-01T12:00", "expected a time zone, such as 2026-11-01T12:00Z for UTC"),
        ("main-n302145-0a1b2c3d-dirty", "built from modified sources"),
    ],
)
def test_invalid_names_are_rejected_with_one_sentence(text: str, sentence: str) -> None:
    """The sentence is printable on any terminal."""
    with pytest.raises(RevisionError, match=re.escape(sentence)) as caught:
        parse(text)

    assert str(caught.value).isprintable()
    assert caught.value.candidates == ()


@given(st.text(ALPHABET, max_size=30) | st.text(max_size=30))
@example("9999-12-31")
@example("0001-01-01T00:00+14:00")
@example("9999-12-31T23:59:59-23:59")
@example("x" * (LONGEST + 1))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    """Only RevisionError is raised; a name is plain ASCII and survives a round trip."""
    name = parsed_or_error(text)
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
)
def test_text_of_a_reading_is_parsed_to_the_reading(reading: Reading) -> None:
    """Users can type the candidates that an error message lists."""
    assert reading in readings(str(reading))
