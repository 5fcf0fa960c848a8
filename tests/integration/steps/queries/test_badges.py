"""Badges of branches."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model.alert_state import AlertState
from netbisect.reports.plots.badge import Condition, badge, state
from netbisect.steps.queries.badges import conditions

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Condition(0, 0, 9, 0.5), "ok"),
        (Condition(1, 0, 9, 0.5), "1 drop"),
        (Condition(3, 2, 9, 30.0), "3 drops"),
        (Condition(0, 1, 9, 0.5), "measuring"),
        (Condition(0, 1, 9, 2.6), "stale"),
        (Condition(0, 0, 1, 0.5), "measuring"),
        (Condition(0, 0, 0, None), "measuring"),
        (Condition(0, 0, 9, 2.4), "ok"),
        (Condition(0, 0, 9, None), "ok"),
    ],
)
def test_a_badge_shows_drops_first_then_the_age_of_measurements(
    condition: Condition, text: str
) -> None:
    assert state(condition)[0] == text
    assert text in badge("main", condition)


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=90))
def test_any_name_gives_a_valid_badge(name: str) -> None:
    """The SVG is well-formed, has a label with its text, and contains no script."""
    drawing = badge(f"<script>]]>&'\"{name}", Condition(0, 0, 9, 0.5))
    root = ET.fromstring(drawing.encode())  # noqa: S314 - our own text

    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{name}" for name in ("svg", "title", "clipPath", "rect", "g", "text")
    }
    assert root.get("aria-label") == root.findtext(f"{SVG}title")
    assert int(root.get("width") or 0) < 1300


def test_a_branch_has_conditions_for_all_testbeds_and_for_each(filled_ledger: Any) -> None:
    """A branch without measurements has the state `measuring`."""
    ledger = filled_ledger.ledger
    found = conditions(ledger, ["main"])

    assert set(found) == {("main", ""), ("stable/15", ""), ("stable/15", "c2558")}
    assert state(found["main", ""])[0] == "measuring"
    assert state(found["stable/15", ""])[0] == "1 drop"
    assert found["stable/15", "c2558"] == found["stable/15", ""]
    assert found["stable/15", ""].days == pytest.approx(3)

    ledger.alerts.change(
        filled_ledger.alert, who="olga", what="known", state=AlertState.ACKNOWLEDGED
    )
    assert state(conditions(ledger)["stable/15", ""])[0] == "stale"
    earlier = ledger.clock() - 86400.0
    ledger.clock = lambda: earlier
    assert state(conditions(ledger)["stable/15", ""])[0] == "ok"
