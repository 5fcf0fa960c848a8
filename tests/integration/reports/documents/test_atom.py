"""The Atom feed of alerts (RFC 4287)."""

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


def parse(text: str) -> ET.Element:
    """Parses a feed and checks the required elements of RFC 4287."""
    root = ET.fromstring(text.encode())  # noqa: S314 - our own text
    assert root.tag == f"{ATOM}feed"
    for node in (root, *root.findall(f"{ATOM}entry")):
        for name in ("id", "title", "updated"):
            [found] = node.findall(f"{ATOM}{name}")
            assert found.text
        assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", node.findtext(f"{ATOM}id") or "")
        times = [child for child in node if child.tag in {f"{ATOM}updated", f"{ATOM}published"}]
        assert all(datetime.fromisoformat(time.text or "").tzinfo for time in times)
        for link in node.findall(f"{ATOM}link"):
            assert link.get("href")
    assert root.findtext(f"{ATOM}author/{ATOM}name")
    ids = [entry.findtext(f"{ATOM}id") for entry in root.findall(f"{ATOM}entry")]
    assert len(set(ids)) == len(ids)
    return root


def test_an_alert_keeps_its_id_when_its_state_changes() -> None:
    """A feed reader then shows a changed entry instead of a new one."""
    before = parse(feed([ALERT], name="lab")).find(f"{ATOM}entry")
    history = (*ALERT.history, HistoryEntry(1.7e9, "olga", "over", AlertState.FIXED))
    closed = replace(ALERT, state=AlertState.FIXED, history=history, address="")
    after = parse(feed([closed], name="lab")).find(f"{ATOM}entry")

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
    """The text may have control characters, markup and lone surrogates."""
    hostile = f"{text}]]><b>&amp;"
    commit = replace(ALERT.good, label=hostile, subject=hostile)
    alert = replace(ALERT, lead=hostile, good=commit, culprit=commit, address=hostile)
    document = feed([alert], name=hostile, address=hostile, page=hostile)

    assert "]]>" in (parse(document).findtext(f"{ATOM}entry/{ATOM}summary") or "")
    assert "<b>" not in document


def test_the_feed_has_announced_alerts_only(filled_ledger: Any) -> None:
    """The summary names a verified commit."""
    documents = DocumentQueries(filled_ledger.ledger)
    [entry] = parse(documents.atom()).findall(f"{ATOM}entry")
    summary = entry.findtext(f"{ATOM}summary") or ""

    assert entry.findtext(f"{ATOM}id") == documents.alert(filled_ledger.alert).id
    assert "n302147-cccccccccccc =HYPERLINK" in summary
