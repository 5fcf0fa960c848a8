"""The feed of alerts: RFC 4287, with identities that never change."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.reports.documents.atom import Entry, alert_id, feed
from netbisect.steps.queries.documents import DocumentQueries

ATOM = "{http://www.w3.org/2005/Atom}"
ENTRY = Entry(
    id=alert_id(7, "c2558", 1.5e9),
    number=7,
    kind=AlertKind.DROP,
    state=AlertState.OPEN,
    place="inet4-forwarding on c2558, main",
    effect=None,
    good="n1",
    bad="n2",
    culprit="",
    announced=1.5e9,
    changed=1.6e9,
    address="https://lab.invalid/alert-7.html",
)


def read(text: str) -> ET.Element:
    """A feed, with what RFC 4287 demands of any."""
    root = ET.fromstring(text.encode())  # noqa: S314 - our own text
    assert root.tag == f"{ATOM}feed"
    for node in (root, *root.findall(f"{ATOM}entry")):
        for name in ("id", "title", "updated"):
            [found] = node.findall(f"{ATOM}{name}")
            assert found.text
        assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", node.findtext(f"{ATOM}id") or "")
        stamps = [one for one in node if one.tag in {f"{ATOM}updated", f"{ATOM}published"}]
        assert all(datetime.fromisoformat(one.text or "").tzinfo for one in stamps)
        for link in node.findall(f"{ATOM}link"):
            assert link.get("href")
    assert root.findtext(f"{ATOM}author/{ATOM}name")
    numbers = [one.findtext(f"{ATOM}id") for one in root.findall(f"{ATOM}entry")]
    assert len(set(numbers)) == len(numbers)
    return root


def test_an_alert_keeps_its_identity_whatever_becomes_of_it() -> None:
    """A reader shows it once more as changed, and not as another one."""
    before = read(feed([ENTRY], name="lab")).find(f"{ATOM}entry")
    after = read(
        feed([replace(ENTRY, state=AlertState.FIXED, changed=1.7e9, address="")], name="lab")
    ).find(f"{ATOM}entry")

    assert before is not None
    assert after is not None
    assert before.findtext(f"{ATOM}id") == after.findtext(f"{ATOM}id")
    assert before.findtext(f"{ATOM}updated") == "2020-09-13T12:26:40Z"
    assert after.findtext(f"{ATOM}updated") == "2023-11-14T22:13:20Z"
    assert alert_id(7, "c2558", 1.5e9) == ENTRY.id
    assert len({alert_id(7, "c2558", 1.5e9), alert_id(8, "c2558", 1.5e9),
                alert_id(7, "apu2", 1.5e9), alert_id(7, "c2558", 1.6e9)}) == 4  # fmt: skip


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=30))
def test_any_text_makes_a_feed_that_can_be_read(text: str) -> None:
    """Control characters, markup and halves of letters included."""
    hostile = f"{text}]]><b>&amp;"
    entry = replace(ENTRY, place=hostile, good=hostile, culprit=hostile, address=hostile)
    told = feed([entry], name=hostile, address=hostile, page=hostile)

    assert "]]>" in (read(told).findtext(f"{ATOM}entry/{ATOM}summary") or "")
    assert "<b>" not in told


def test_the_alerts_of_a_ledger(filled_ledger: Any) -> None:
    """Announced ones alone; the commit is named when it is verified."""
    [entry] = DocumentQueries(filled_ledger.ledger).entries()
    summary = read(feed([entry], name="x")).findtext(f"{ATOM}entry/{ATOM}summary") or ""

    assert entry.id == DocumentQueries(filled_ledger.ledger).alert(filled_ledger.alert).id
    assert "n302147-cccccccccccc =HYPERLINK" in summary
