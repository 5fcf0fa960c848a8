"""One noun, one line of JSON, both ways."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect import model, wire

NOUNS = [
    *(noun for union in (model.Fact, model.Question, model.Move) for noun in get_args(union)),
    model.Profile,
]


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.__name__)
@given(data=st.data())
@settings(max_examples=30)
def test_every_noun_comes_back_as_it_went(noun: type, data: st.DataObject) -> None:
    """Facts, questions, moves and findings, whatever is in them, on one line."""
    there = data.draw(st.from_type(noun))
    line = wire.dumps(there)

    assert "\n" not in line
    assert json.loads(line)["is"] == noun.__name__.lower()
    # By their repr, for NaN is not equal to itself.
    assert repr(wire.loads(line)) == repr(there)
    assert repr(wire.loads_as(line, noun)) == repr(there)


BOOT = {"is": "boot", "id": "b", "testbed": "apu", "kernel": "k", "revision": "r", "at": 1.0,
        "seconds": 2.0}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12:00 booting", "not a line of JSON"),
        ("[1]", "a JSON object whose `is` is one of"),
        ('{"is": "boat"}', "a JSON object whose `is` is one of bisection, boot"),
        (json.dumps(BOOT | {"speed": 1}), "speed"),
        (json.dumps({key: BOOT[key] for key in BOOT if key != "kernel"}), "kernel"),
        (json.dumps(BOOT | {"seconds": "soon"}), "seconds"),
    ],
)
def test_another_line_is_refused_and_the_message_says_why(text: str, message: str) -> None:
    with pytest.raises(wire.WireError, match=message):
        wire.loads(text)


def test_another_noun_than_the_expected_one_is_refused() -> None:
    with pytest.raises(wire.WireError, match="expected Kernel, found Boot"):
        wire.loads_as(json.dumps(BOOT), model.Kernel)


def test_what_is_no_noun_cannot_be_written() -> None:
    with pytest.raises(KeyError):
        wire.dumps(model.Prices())
