"""JSON of facts, jobs, trials and results."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netbisect.bisect.model import entities, jobs, marks, results, serialization
from netbisect.bisect.model.serialization import CLASSES


def test_every_class_has_a_tag() -> None:
    unions = (entities.Fact, jobs.Job, results.Move)

    assert set(CLASSES.values()) == {
        entities.Profile,
        marks.CommitMark,
        *(kind for union in unions for kind in get_args(union)),
    }


def test_stored_tags_are_unchanged() -> None:
    """Databases and logs of earlier versions contain these tags."""
    assert " ".join(CLASSES) == (
        "kernel boot conditions sample dud profile mark night comparison bisection profiling "
        "measurement visit nightdone confirmed notconfirmed culprit several suspects drift "
        "notreproduced profiled measured unfinished"
    )


@pytest.mark.parametrize("tag", CLASSES)
@given(data=st.data())
@settings(max_examples=8)
def test_objects_survive_a_round_trip(tag: str, data: st.DataObject) -> None:
    before = data.draw(st.from_type(CLASSES[tag]))
    line = serialization.dumps(before)
    assume("least_pairs" not in line and "belief" not in line)  # fields of earlier versions

    assert "\n" not in line
    assert json.loads(line)["is"] == serialization.tag_of(before) == tag
    # NaN does not equal itself: compare the representations.
    assert repr(serialization.loads_as(line, CLASSES[tag])) == repr(before)


def test_jobs_of_earlier_versions_are_read() -> None:
    job = jobs.CompareJob("main", "apu", "a", "b", ("inet4",), "inet4", -0.1, commits=30)
    data = json.loads(serialization.dumps(job))
    del data["commits"]

    assert serialization.loads(json.dumps(data | {"least_pairs": 4})) == job


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
def test_invalid_text_is_rejected_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(serialization.WireError, match=message):
        serialization.loads(text)
    with pytest.raises(serialization.WireError, match="expected Kernel, found Boot"):
        serialization.loads_as(json.dumps(BOOT), entities.Kernel)
