"""Validation of requests, and the commands of `netbisect request`."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from programs import netbisect

from netbisect.bisect.model.jobs import MeasureJob
from netbisect.reports.documents import api
from netbisect.steps.policy.request_spec import InvalidRequestError
from netbisect.steps.requests.service import RequestService
from netbisect.steps.service.control import SETTINGS
from netbisect.steps.service.rights import Right, User
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_history, open_service_ledger
from netbisect.store.db.records import RequestState
from netbisect.workers.build.patches import MOST_BYTES

OUTSIDE = b"--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture(scope="module")
def unchanged(service_folder: Path) -> RequestService:
    """A service for tests that submit no valid request."""
    return service_in(service_folder)


@pytest.fixture
def service(own_service: Path) -> RequestService:
    return service_in(own_service)


def service_in(folder: Path) -> RequestService:
    chosen, lab = load(folder / SETTINGS)
    return RequestService(open_service_ledger(chosen), chosen, lab, open_history(chosen, lab))


def user(name: str = "ann") -> User:
    return User(name, frozenset(Right), "command", "")


def spec(*subjects: str, kind: Any = "compare", **more: Any) -> api.AskBody:
    return api.AskBody(kind=kind, subjects=subjects, **{"testbeds": ("c2558",), **more})


def with_diff(data: bytes) -> api.AskBody:
    return spec("main", patches=(api.PatchBody(base64=base64.b64encode(data).decode()),))


def refused(service: RequestService, body: api.AskBody, who: str = "ann") -> dict[str, str]:
    with pytest.raises(InvalidRequestError) as error:
        service.ask(user(who), body)
    assert service.ledger.requests.all() == []
    assert service.ledger.jobs.all_open() == []
    return error.value.faults


def test_a_comparison_becomes_one_job_per_testbed(service: RequestService) -> None:
    """A dry run writes nothing. A trial measures all tunables, with one boot each."""
    estimate = service.estimate(user(), spec("main~3", "main", boots=4, repeat=True))
    [testbed] = estimate.testbeds
    assert (len(testbed.builds), testbed.boots, testbed.shared) == (2, 16, 0)
    assert testbed.seconds > 0 < estimate.build_seconds
    assert service.ledger.requests.all() == []
    assert service.ledger.requests.audit() == []
    assert not service.settings.patches.exists()

    request = service.ask(user(), spec("main~3", "main", boots=7, testbeds=("c2558", "e5-2650")))
    jobs = [record.job for record in service.ledger.requests.jobs(request.id)]
    tips = [service.history.commit(name).revision for name in ("main~3", "main")]

    assert [(job.testbed, job.branch) for job in jobs] == [("c2558", "main"), ("e5-2650", "main")]
    first = jobs[0]
    assert isinstance(first, MeasureJob)
    assert (list(first.revisions), first.boots) == (tips, 7)
    assert first.scenarios == service.lab.testbed("c2558").scenarios[:1]
    assert set(first.noise) == set(first.scenarios)
    [entry] = service.ledger.requests.audit()
    assert (entry.who, entry.what, entry.request) == ("ann", "ask", request.id)
    assert entry.data["subjects"] == tips

    settings = ("net.isr.maxthreads=2,hw.igb.num_queues=1", "hw.igb.num_queues=4")
    request = service.ask(user(), spec("main~3", "main", tunables=settings))
    [record] = service.ledger.requests.jobs(request.id)
    [scenario] = first.scenarios
    assert record.job.scenarios == (
        scenario,
        f"{scenario}@hw.igb.num_queues=1,net.isr.maxthreads=2",
        f"{scenario}@hw.igb.num_queues=4",
    )


def test_invalid_tunables_are_rejected(unchanged: RequestService) -> None:
    for text, message in (
        ("sysctl:kern.securelevel=3", "expected a name that begins with hw., net., dev."),
        ("queues", "tunable 'queues': expected NAME=VALUE"),
        ("queues=4", "tunable 'queues': expected a name such as net.isr.maxthreads"),
        ("net.isr.maxthreads='4'", "expected a number, or letters without spaces and quotes"),
        ("netbisect.order=1", "it is set by netbisect itself"),
        ("hw.a=1,hw.a=2", "tunable 'hw.a': expected once"),
    ):
        faults = refused(unchanged, spec("main~3", "main", tunables=(text,)))
        assert message in faults["tunables"]


def test_open_requests_are_limited_per_user(service: RequestService) -> None:
    limits = replace(service.settings.requests, open_per_person=1)
    service = replace(service, settings=replace(service.settings, requests=limits))
    first = service.ask(user(), spec("main~3", "main"))
    with pytest.raises(InvalidRequestError, match="ann has 1 open requests, and may have 1"):
        service.ask(user(), spec("main~2", "main"))
    service.ask(user("bob"), spec("main~3", "main"))
    service.cancel(user(), first.id, api.CancelBody())

    assert service.ask(user(), spec("main~2", "main")).state is RequestState.OPEN


def test_invalid_fields_are_rejected(unchanged: RequestService) -> None:
    for body, field, message in (
        (spec("main~3", "main", boots=0), "boots", "0 boots; expected 1 to 100"),
        (spec("main~3", "main", boots=101), "boots", "expected 1 to 100"),
        (spec("main", "main"), "subjects", "appears twice"),
        (spec("main"), "subjects", "1 given; expected two revisions, or one and a patch"),
        (spec("main", "main~1", "main~2"), "subjects", "3 given"),
        (spec("main~3", "main", testbeds=("c2559",)), "testbeds", "did you mean c2558?"),
        (spec("main~3", "main", testbeds=()), "testbeds", "one or more of c2558, e5-2650"),
        (
            spec("main~3", "main", scenarios=("inet4-forwarding2",)),
            "scenarios",
            "did you mean inet4-forwarding",
        ),
        (spec("main~3", "main", branch="mian"), "branch", "did you mean main?"),
        (spec("main~3", "main", margin_percent=0.0), "margin_percent", "more than 0"),
        (spec("main~3", "main", address="a@b\nBcc: c@d"), "address", "expected a mail address"),
        (spec("main~3", "main", address="&@[9"), "address", "'&@[9': expected a mail address"),
        (spec("main..main~3", kind="bisect"), "subjects", "is reversed, main~3 is the older one"),
        (spec("main..main", kind="bisect"), "subjects", ""),
        (spec("main", kind="bisect"), "subjects", "shows no drop up to"),
        (spec("main", "f" * 40), "subjects", ""),
        (spec("main", "--upload-pack=touch x"), "subjects", ""),
        (spec("main", "$(touch x)"), "subjects", "$(touch x)"),
        (spec("main", "main" + "+D0"), "subjects", ""),
        (with_diff(b"x" * (MOST_BYTES + 1)), "patches", "at most 10 MiB"),
        (with_diff(OUTSIDE), "patches", "names of files inside the tree"),
        (with_diff(b""), "patches", "expected a diff"),
    ):
        assert message in refused(unchanged, body)[field], message
    faults = refused(unchanged, spec("main~3", "main"), who="a\nb")
    assert "1 to 100 characters without <" in faults["who"]


def run(folder: Path, *arguments: str) -> Result:
    return netbisect("request", *arguments, "--folder", folder)


def test_commands_submit_change_and_show_a_request(own_service: Path) -> None:
    record = run(own_service, "compare", "main~3", "main", "--testbed", "c2558", "--who", "ann")
    assert record.exit_code == 0, record.output
    assert "Request 1, compare" in record.output
    assert "0 of 10 boots" in record.output

    listed = run(own_service, "list")
    assert {"compare", "and"} <= {*listed.output.split()}
    assert run(own_service, "priority", "1", "high", "--who", "bob").exit_code == 0
    assert run(own_service, "cancel", "1", "--who", "bob", "--why", "enough").exit_code == 0
    again = run(own_service, "cancel", "1")
    assert (again.exit_code, "request 1 is cancelled" in again.output) == (3, True)
    assert run(own_service, "resume", "1", "--who", "ann").exit_code == 0
    assert run(own_service, "extend", "1", "--boots", "3", "--who", "ann").exit_code == 0
    wrong = run(own_service, "extend", "1", "--hours", "3", "--who", "ann")
    assert "is extended by boots, 1 to 92" in wrong.output
    shown = json.loads(run(own_service, "show", "1", "--json").stdout)

    assert shown["state"] == "open"
    assert shown["priority"] == "high"
    assert shown["parts"][0]["boots_wanted"] == 16
    history = [entry["what"] for entry in shown["history"]]
    assert history == ["ask", "priority", "cancel", "resume", "extend"]


def test_the_queue_is_ordered_by_priority(own_service: Path) -> None:
    """Users of one priority take turns, at one place. A dry run prints the cost only."""
    dry = ("series", "main~3", "main~2", "main", "--testbed", "c2558", "--dry-run")
    assert "15" in run(own_service, *dry).output
    estimate = json.loads(run(own_service, *dry, "--json").stdout)
    assert estimate["testbeds"][0]["boots"] == 15
    assert run(own_service, "list", "--all").output == "No requests.\n"

    for who, level in (("ann", "normal"), ("bob", "high"), ("cid", "low"), ("dan", "normal")):
        command = ("compare", "main~3", "main", "--testbed", "c2558")
        done = run(own_service, *command, "--who", who, "--priority", level)
        assert done.exit_code == 0, done.output
    parts = [
        json.loads(run(own_service, "show", str(number), "--json").stdout)["parts"][0]
        for number in (1, 2, 3, 4)
    ]
    assert [part["place"] for part in parts] == [2, 1, 4, 2]
    assert parts[1]["seconds_left"] < parts[0]["seconds_left"] < parts[2]["seconds_left"]


def test_errors_exit_with_status_3(own_service: Path) -> None:
    for arguments in (
        ("compare", "main~3", "nope", "--testbed", "c2558"),
        ("compare", "main~3", "main", "--testbed", "c2558", "--boots", "x"),
        ("compare", "main~3", "main", "--bogus"),
        ("show", "7"),
        ("extend", "7", "--boots", "1"),
        ("nothing",),
        ("audit", "--after", str(2**31)),
    ):
        done = run(own_service, *arguments)
        assert done.exit_code == 3, done.output
        assert "Traceback" not in done.output
