"""JSON documents and their published schemas."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import report_cases
import report_documents
from ledger_facts import NIGHT
from machine_fixtures import measure
from programs import netbisect as run

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Conditions, SeriesName
from netbisect.bisect.model.results import Effect
from netbisect.reports.console import status
from netbisect.reports.documents import json_schema
from netbisect.reports.model.types import Difference, DigestDocument, MissingScenarios
from netbisect.reports.render import words
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.queries.health import judge
from netbisect.store.ledger import Ledger

HOSTILE = "]]> \ud800 \x00 <b>"


def digest(_: Any) -> Any:
    item = replace(report_cases.alert_summary(), title=HOSTILE, testbed=HOSTILE)
    return DigestDocument(
        since=0.0,
        until=1.0,
        planned=2,
        measured=1,
        missing=(MissingScenarios(HOSTILE, (HOSTILE,), HOSTILE),),
        drops=(item,),
        standing=(item,),
        searches=(HOSTILE,),
    )


MAKERS: dict[str, Callable[[Any], Any]] = {
    "alert": lambda filled: DocumentQueries(filled.ledger).alert(filled.alert),
    "bisection": lambda filled: DocumentQueries(filled.ledger).bisection(filled.bisection),
    "comparison": lambda filled: DocumentQueries(filled.ledger).comparison(filled.comparison),
    "digest": digest,
    "request": lambda _: report_documents.request_document(HOSTILE),
    "health": lambda filled: judge(filled.ledger),
    "series": lambda filled: DocumentQueries(filled.ledger).series(
        SeriesName("c2558", "inet4-forwarding", "stable/15")
    ),
    "status": lambda filled: DocumentQueries(filled.ledger).status(),
}


def closed(node: Any) -> Any:
    """A schema without additional keys, which detects keys missing from the original schema."""
    if isinstance(node, list):
        return [closed(child) for child in node]
    if not isinstance(node, dict):
        return node
    schema = {key: closed(child) for key, child in node.items()}
    return schema | {"additionalProperties": False} if "properties" in schema else schema


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(closed(json_schema.schema(name)))


def validate(document: Any, name: str) -> None:
    validator(name).validate(document)


@pytest.mark.parametrize("name", json_schema.DOCUMENTS)
def test_documents_match_their_schemas(filled_ledger: Any, name: str) -> None:
    """They may have infinite intervals, control characters and lone surrogates."""
    made = MAKERS[name](filled_ledger)
    for text in (json_schema.as_text(made), json_schema.as_line(made)):
        assert text.isascii()
        assert "\\ud8" not in text
        document = json.loads(text, parse_constant=pytest.fail)
        validate(document, name)
        assert document == json_schema.as_plain(made)

    good = json_schema.as_plain(made)
    for key in good:
        with pytest.raises(jsonschema.ValidationError, match="required"):
            validate({other: good[other] for other in good if other != key}, name)
    for wrong in ({"format": "netbisect-other/1"}, {"format": 1}, {"more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            validate(good | wrong, name)


def test_printed_schemas_are_valid_and_listed_with_their_versions() -> None:
    """`make schemas` reads this list."""
    listed = dict(line.split() for line in run("schema").stdout.splitlines())
    assert listed == {name: f"netbisect-{name}/1" for name in [*json_schema.DOCUMENTS, "openapi"]}
    for name in json_schema.DOCUMENTS:
        printed = json.loads(run("schema", name).stdout)
        jsonschema.Draft202012Validator.check_schema(printed)
        assert printed["title"] == f"netbisect-{name}/1"


def test_documents_have_the_announced_numbers(filled_ledger: Any) -> None:
    alert = json_schema.as_plain(MAKERS["alert"](filled_ledger))
    bisection = json_schema.as_plain(MAKERS["bisection"](filled_ledger))
    comparison = json_schema.as_plain(MAKERS["comparison"](filled_ledger))
    series = json_schema.as_plain(MAKERS["series"](filled_ledger))

    assert alert["differences"][0]["ln_ratio"] == -0.1
    assert alert["differences"][0]["percent"] == pytest.approx(-9.516, abs=1e-3)
    assert alert["differences"][0]["percent_high"] is None
    assert alert["culprit"]["label"] == "n302147-" + 12 * "c"
    assert alert["history"][-1]["state"] == "culprit-found"
    assert bisection["outcome"] == "culprit"
    assert [commit["chance"] for commit in bisection["candidates"]] == [0.01, 0.98]
    assert bisection["culprits"][0]["parent"] == 40 * "b"
    assert [boot["runs"][0]["pps"] for boot in comparison["boots"]] == [1e6, 9e5]
    assert [level["boots"] for level in series["levels"]] == [
        [pytest.approx(1e6)] * 2,
        [pytest.approx(9e5)] * 2,
    ]
    assert series["alerts"] == [filled_ledger.alert]


def test_new_conditions_do_not_change_the_document_of_an_ended_search(filled_ledger: Any) -> None:
    ledger, queries = filled_ledger.ledger, DocumentQueries(filled_ledger.ledger)
    before = queries.bisection(filled_ledger.bisection)
    comparison = ledger.jobs.get(filled_ledger.comparison).job
    later = ledger.jobs.add(comparison, key="after an upgrade of the generator")
    new = Conditions.of(comparison.testbed, comparison.lead, {"nic": "another"})
    ledger.facts.record(new)
    measure(ledger, later, before.bad.revision, 8e5, conditions=new.digest)

    after = queries.bisection(filled_ledger.bisection)
    ends = [before.good.revision, before.bad.revision]
    assert list(after.pps[before.lead]) == [one.revision for one in after.levels] == ends
    assert replace(after, levels=before.levels) == before  # levels mark the present baseline


def test_an_interval_without_an_upper_end_has_no_percentage_there() -> None:
    found = Difference.of(Effect("a", 1.0, -1e9, 1e9, 1.0, 1, 1))

    assert (found.percent_low, found.percent_high) == (-100, None)


def test_percentages_have_the_sign_of_the_numbers() -> None:
    """Levels of metrics with direction lower have the opposite sign of the numbers."""
    cpu = "inet4~cpu.percent.lower"
    ends = [-math.log(number) for number in (1.25, 1.5, 1.1)]
    found = Difference.of(Effect(cpu, *ends, 0.001, 5, 5))

    assert (found.percent, found.percent_low, found.percent_high) == pytest.approx((25, 10, 50))
    assert words.change(found) == "+25.0 % (+10.0 to +50.0)"
    assert found.ln_ratio < 0


def test_a_status_lists_open_alerts_by_default(filled_ledger: Any) -> None:
    """Fixed alerts are shown only if all alerts are requested."""
    ledger, number = filled_ledger.ledger, filled_ledger.alert

    def shown(*, everything: bool = False) -> str:
        return status.as_text(DocumentQueries(ledger).status(everything=everything))

    def change(state: AlertState) -> None:
        ledger.alerts.change(number, who="olga", what="because", state=state)

    assert "Confirmed drops:\n  alert 1, 2026" in shown()
    change(AlertState.ACKNOWLEDGED)
    assert "No open drops.\nKnown or muted:\n  alert 1" in shown()
    change(AlertState.FIXED)
    assert "alert 1" not in shown()
    assert "Closed:\n  alert 1" in shown(everything=True)


def test_export_prints_each_document(filled_ledger: Any) -> None:
    """An unknown object is reported in one sentence."""

    def export(*arguments: str) -> tuple[int, str]:
        result = run("export", *arguments, "--database", filled_ledger.url)
        return result.exit_code, result.output

    for name in ("alert", "bisection", "comparison", "status", "health"):
        number = getattr(filled_ledger, name, None)
        status, text = export(name, *([] if number is None else [str(number)]))
        assert status == 0, text
        validate(json.loads(text), name)
    for arguments, message in (
        (["alert", "9"], "there is no alert 9"),
        (["comparison", "9"], "there is no job 9"),
        (["comparison", "1"], "job 1 is not a comparison but a night"),
        (["bisection", "3"], "job 3 is not a bisection but a comparison"),
        (["series", "a", "b", "c"], "there are no measurements of the series a/b/c"),
    ):
        assert export(*arguments) == (1, f"Error: {message}\n")


def test_a_status_has_the_whole_queue(empty_ledger: Ledger) -> None:
    for number in range(60):
        empty_ledger.jobs.add(NIGHT, key=f"{number}")
    assert len(DocumentQueries(empty_ledger).status().jobs) == 60
