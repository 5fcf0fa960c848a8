"""The feed of alerts: RFC 4287, with identities that never change."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from report_cases import alert_document

from netbisect.bisect.model.alert_state import AlertState, HistoryEntry
from netbisect.reports.documents.atom import alert_id, feed
from netbisect.steps.queries.documents import DocumentQueries

ATOM = "{http://www.w3.org/2005/Atom}"
ALERT = replace(
    alert_document(),
    number=7,
    id=alert_id(7, "c2558", 1.5e9),
    opened_at=1.5e9,
    announced_at=1.5e9,
    history=(HistoryEntry(1.6e9, "olga", "because", None),),
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


def test_an_alert_keeps_its_identity() -> None:
    """A reader shows it once more as changed, and not as another one."""
    before = read(feed([ALERT], name="lab")).find(f"{ATOM}entry")
    history = (*ALERT.history, HistoryEntry(1.7e9, "olga", "over", AlertState.FIXED))
    over = replace(ALERT, state=AlertState.FIXED, history=history, address="")
    after = read(feed([over], name="lab")).find(f"{ATOM}entry")

    assert before is not None
    assert after is not None
    assert before.findtext(f"{ATOM}id") == after.findtext(f"{ATOM}id")
    assert before.findtext(f"{ATOM}updated") == "2020-09-13T12:26:40Z"
    assert after.findtext(f"{ATOM}updated") == "2023-11-14T22:13:20Z"
    assert alert_id(7, "c2558", 1.5e9) == ALERT.id
    assert len({alert_id(7, "c2558", 1.5e9), alert_id(8, "c2558", 1.5e9),
                alert_id(7, "apu2", 1.5e9), alert_id(7, "c2558", 1.6e9)}) == 4  # fmt: skip


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=30))
def test_any_text_gives_a_valid_feed(text: str) -> None:
    """Control characters, markup and halves of letters included."""
    hostile = f"{text}]]><b>&amp;"
    commit = replace(ALERT.good, label=hostile, subject=hostile)
    alert = replace(ALERT, lead=hostile, good=commit, culprit=commit, address=hostile)
    document = feed([alert], name=hostile, address=hostile, page=hostile)

    assert "]]>" in (read(document).findtext(f"{ATOM}entry/{ATOM}summary") or "")
    assert "<b>" not in document


def test_the_alerts_of_a_ledger(filled_ledger: Any) -> None:
    """Announced ones alone; the commit is named when it is verified."""
    documents = DocumentQueries(filled_ledger.ledger)
    [entry] = read(documents.atom()).findall(f"{ATOM}entry")
    summary = entry.findtext(f"{ATOM}summary") or ""

    assert entry.findtext(f"{ATOM}id") == documents.alert(filled_ledger.alert).id
    assert "n302147-cccccccccccc =HYPERLINK" in summary
