"""What people ask for: granted, or refused with a sentence for each field; and the command."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netbisect.bisect.model import Comparison, Measurement
from netbisect.bisect.subject import parts_of
from netbisect.steps import cli
from netbisect.steps.control import SETTINGS
from netbisect.steps.memory import history_of, ledger_of
from netbisect.steps.requests import Desk
from netbisect.steps.settings import load
from netbisect.steps.wish import PatchFile, Wish, WishError
from netbisect.store.records import RequestState
from netbisect.workers.patches import MOST_BYTES

DIFF = b"--- a/sys/x.c\n+++ b/sys/x.c\n@@ -1 +1 @@\n-a\n+b\n"
OUTSIDE = b"--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture
def house(quiet_house: Path, tmp_path: Path) -> Path:
    """A service's folder of the test's own; its tree is that of all."""
    place = tmp_path / "house"
    shutil.copytree(quiet_house, place, ignore=shutil.ignore_patterns("*.sqlite*"))
    return place


@pytest.fixture
def desk(house: Path) -> Desk:
    chosen, lab = load(house / SETTINGS)
    return Desk(ledger_of(chosen), history_of(chosen, lab), chosen, lab)


def wish(*subjects: str, kind: str = "compare", **more: Any) -> Wish:
    return Wish(kind=kind, subjects=subjects, **{"who": "ann", "testbeds": ("c2558",), **more})


def refused(desk: Desk, asked: Wish) -> dict[str, str]:
    with pytest.raises(WishError) as error:
        desk.ask(asked)
    assert desk.ledger.requests() == []
    assert desk.ledger.open_questions() == []
    return error.value.faults


# ------------------------------------------------------------------------------------ granted


def test_two_revisions_are_asked_about(desk: Desk) -> None:
    """A question on each testbed, with the scenarios that were chosen; the log says who asked."""
    request = desk.ask(wish("main~3", "main", boots=7, testbeds=("c2558", "e5-2650")))
    questions = [one.question for one in desk.ledger.parts_of(request.id)]
    tips = [desk.history.commit(name).revision for name in ("main~3", "main")]

    assert [(one.testbed, one.branch) for one in questions] == [
        ("c2558", "main"),
        ("e5-2650", "main"),
    ]
    first = questions[0]
    assert isinstance(first, Measurement)
    assert (list(first.revisions), first.boots) == (tips, 7)
    assert first.scenarios == desk.lab.testbed("c2558").scenarios[:1]
    assert set(first.noise) == set(first.scenarios)
    [deed] = desk.ledger.audit()
    assert (deed.who, deed.what, deed.request) == ("ann", "ask", request.id)
    assert deed.data["subjects"] == tips


def test_a_patch_file_is_held_against_its_base(desk: Desk) -> None:
    """The patch is kept under its content; the base keeps its own name."""
    request = desk.ask(wish("main", patches=(PatchFile(DIFF),)))
    [asked] = desk.ledger.parts_of(request.id)
    assert isinstance(asked.question, Measurement)
    base, patched = asked.question.revisions
    commit, mark = parts_of(patched)

    assert (commit, parts_of(base)) == (base, (base, ""))
    assert (desk.settings.patches / f"{mark}.patch").read_bytes() == DIFF


def test_a_range_is_asked_about(desk: Desk) -> None:
    """The search begins with its ends."""
    request = desk.ask(wish("main~3..main", kind="bisect"))
    [asked] = desk.ledger.parts_of(request.id)

    assert isinstance(asked.question, Comparison)
    assert asked.question.good == desk.history.commit("main~3").revision
    assert asked.question.suspected < 0


def test_a_dry_run_writes_nothing(desk: Desk) -> None:
    """It says what is not built, and how many boots it takes."""
    found = desk.estimate(wish("main~3", "main", boots=4, repeat=True))
    [one] = found.testbeds

    assert (len(one.builds), one.boots, one.shared) == (2, 16, 0)
    assert one.seconds > 0 < found.build_seconds
    assert desk.ledger.requests() == []
    assert desk.ledger.audit() == []
    assert not desk.settings.patches.exists()


def test_one_person_may_not_have_everything(desk: Desk) -> None:
    """Others may still ask."""
    limits = replace(desk.settings.requests, open_per_person=1)
    desk = replace(desk, settings=replace(desk.settings, requests=limits))
    first = desk.ask(wish("main~3", "main"))
    with pytest.raises(WishError, match="ann has 1 open requests, and may have 1"):
        desk.ask(wish("main~2", "main"))
    desk.ask(wish("main~3", "main", who="bob"))
    desk.cancel(first.id, who="ann")

    assert desk.ask(wish("main~2", "main")).state is RequestState.OPEN


# ------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("asked", "field", "said"),
    [
        (wish("main~3", "main", boots=0), "boots", "0 boots; 1 to 100 would be right"),
        (wish("main~3", "main", boots=101), "boots", "1 to 100 would be right"),
        (wish("main", "main"), "subjects", "is there twice"),
        (wish("main"), "subjects", "1 were given; two revisions, or one and a patch"),
        (wish("main", "main~1", "main~2"), "subjects", "3 were given"),
        (wish("main~3", "main", testbeds=("c2559",)), "testbeds", "c2558 may be meant"),
        (wish("main~3", "main", testbeds=()), "testbeds", "one or more of c2558, e5-2650"),
        (
            wish("main~3", "main", scenarios=("inet4-forwarding2",)),
            "scenarios",
            "; inet4-forwarding",
        ),
        (wish("main~3", "main", branch="mian"), "branch", "main may be meant"),
        (wish("main~3", "main", priority="urgent"), "priority", "low, normal or high"),
        (wish("main~3", "main", kind="search"), "kind", "compare, bisect or series"),
        (wish("main~3", "main", margin_percent=0.0), "margin_percent", "more than 0"),
        (wish("main~3", "main", who="a\nb"), "who", "1 to 100 letters"),
        (wish("main~3", "main", address="a@b\nBcc: c@d"), "address", "is no mail address"),
        (wish("main..main~3", kind="bisect"), "subjects", "is reversed, main~3 is the older one"),
        (wish("main..main", kind="bisect"), "subjects", ""),
        (wish("main", kind="bisect"), "subjects", "shows no drop up to"),
        (wish("main", "f" * 40), "subjects", ""),
        (wish("main", "--upload-pack=touch x"), "subjects", ""),
        (wish("main", "$(touch x)"), "subjects", "$(touch x)"),
        (wish("main", "'; DROP TABLE requests; --"), "subjects", ""),
        (wish("main", "../../etc/passwd"), "subjects", ""),
        (wish("main", "<script>"), "subjects", "<script>"),
        (wish("main", "main" + "+D0"), "subjects", ""),
        (wish("main", patches=(PatchFile(b"x" * (MOST_BYTES + 1)),)), "patches", "at most 10 MiB"),
        (wish("main", patches=(PatchFile(OUTSIDE),)), "patches", "inside the tree expected"),
        (wish("main", patches=(PatchFile(b""),)), "patches", "a diff expected"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_what_cannot_be_granted_is_refused(desk: Desk, asked: Wish, field: str, said: str) -> None:
    """The field is named, with what would be right; nothing is asked."""
    faults = refused(desk, asked)

    assert said in faults[field]


def test_every_wrong_field_is_named(desk: Desk) -> None:
    """At once, so that nobody has to ask four times."""
    faults = refused(desk, wish("nope", "main", boots=0, testbeds=("x",), priority="now"))

    assert set(faults) == {"subjects", "boots", "testbeds", "priority"}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_no_text_does_harm(desk: Desk, name: str, testbed: str, scenario: str) -> None:
    """Whatever is typed, it is refused with sentences, and nothing is asked."""
    asked = wish("main~3", name, testbeds=(testbed,), scenarios=(scenario,))

    assert refused(desk, asked)


# -------------------------------------------------------------------------------- the command


def run(house: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["request", *arguments, "--folder", str(house)])


def test_a_request_is_made_followed_and_cancelled(house: Path) -> None:
    """By commands alone; every one of them is in the log."""
    asked = run(house, "compare", "main~3", "main", "--testbed", "c2558", "--who", "ann")
    assert asked.exit_code == 0, asked.output
    assert "Request 1, compare" in asked.output
    assert "0 of 10 boots" in asked.output

    listed = run(house, "list")
    assert "compare" in listed.output
    assert run(house, "priority", "1", "high", "--who", "bob").exit_code == 0
    assert run(house, "cancel", "1", "--who", "bob", "--why", "enough").exit_code == 0
    again = run(house, "cancel", "1")
    assert (again.exit_code, "request 1 is cancelled" in again.output) == (3, True)
    assert run(house, "resume", "1", "--who", "ann").exit_code == 0
    assert run(house, "extend", "1", "--boots", "3", "--who", "ann").exit_code == 0
    shown = json.loads(run(house, "show", "1", "--json").stdout)

    assert shown["state"] == "open"
    assert shown["priority"] == "high"
    assert shown["parts"][0]["boots_wanted"] == 16
    assert [deed["what"] for deed in shown["history"]] == [
        "ask",
        "priority",
        "cancel",
        "resume",
        "extend",
    ]


def test_requests_stand_in_a_queue(house: Path) -> None:
    """Of the same testbed; who asks for more importance comes first."""
    for who, level in (("ann", "normal"), ("bob", "high"), ("cid", "low")):
        made = run(
            house,
            "compare",
            "main~3",
            "main",
            "--testbed",
            "c2558",
            "--who",
            who,
            "--priority",
            level,
        )
        assert made.exit_code == 0, made.output
    parts = [
        json.loads(run(house, "show", str(number), "--json").stdout)["parts"][0]
        for number in (1, 2, 3)
    ]

    assert [part["place"] for part in parts] == [2, 1, 3]
    assert parts[1]["seconds_left"] < parts[0]["seconds_left"] < parts[2]["seconds_left"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "main~3", "nope", "--testbed", "c2558"),
        ("compare", "main~3", "main", "--testbed", "c2558", "--boots", "x"),
        ("compare", "main~3", "main", "--bogus"),
        ("show", "7"),
        ("extend", "7", "--boots", "1"),
        ("nothing",),
    ],
    ids=str,
)
def test_an_error_is_no_answer(house: Path, arguments: tuple[str, ...]) -> None:
    """Status 3: 1 and 2 are answers."""
    done = run(house, *arguments)

    assert done.exit_code == 3, done.output
    assert "Traceback" not in done.output


def test_the_cost_is_told_before(house: Path) -> None:
    """As a table, and for programs."""
    asked = ("series", "main~3", "main~2", "main", "--testbed", "c2558", "--dry-run")
    assert "15" in run(house, *asked).output
    told = json.loads(run(house, *asked, "--json").stdout)

    assert told["testbeds"][0]["boots"] == 15
    assert run(house, "list", "--all").output == "Nothing was asked for.\n"


def test_every_command_explains_itself() -> None:
    """With an example."""
    for name in ("compare", "series", "bisect", "list", "show", "cancel", "resume", "extend"):
        done = CliRunner().invoke(cli.main, ["request", name, "--help"])
        assert "netbisect request" in done.output.replace("\n", " ")
        assert "Example" in done.output


def test_the_tree_is_fetched_first(house: Path, desk: Desk) -> None:
    """What has landed a moment ago can be asked about."""
    url = desk.lab.source.repository
    branch = subprocess.run(
        ["git", "-C", url, "rev-parse", "main"], capture_output=True, text=True, check=True
    ).stdout.strip()
    done = run(house, "compare", f"{branch}~1", branch, "--testbed", "c2558", "--dry-run")

    assert done.exit_code == 0, done.output
