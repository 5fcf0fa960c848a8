"""Alerts as an Atom feed (RFC 4287)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.results import Effect
from netbisect.reports.render import words

MEDIA_TYPE = "application/atom+xml"
_ATOM = "http://www.w3.org/2005/Atom"
ENTRIES_MAX = 100
"""In a feed; the newest ones."""
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:netbisect")

ET.register_namespace("", _ATOM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An alert as readers of feeds see it."""

    id: str
    """As `alert_id` makes it."""
    number: int
    kind: AlertKind
    state: AlertState
    place: str
    """Scenario, testbed and branch, for people."""
    effect: Effect | None
    good: str
    bad: str
    """Labels of revisions."""
    culprit: str
    """Label and subject of the commit; "" while there is none."""
    announced: float
    changed: float
    """When something was done to it last, seconds since the epoch."""
    address: str
    """Of its page; "" where there is none."""


def alert_id(number: int, testbed: str, opened_at: float) -> str:
    """What an alert is known by everywhere, whatever becomes of it or of its pages."""
    name = f"alert/{number}/{testbed}/{opened_at!r}".encode("utf-8", "replace").decode()
    return uuid.uuid5(_SPACE, name).urn


def feed(entries: Iterable[Entry], *, name: str, address: str = "", page: str = "") -> str:
    """The feed, the alert that was changed last first.

    Args:
        entries: In whatever order.
        name: By which this feed differs from those of other labs, such as the address of its
            service; it becomes the feed's id.
        address: Of the feed itself; "" where it is a file.
        page: Of the pages that it tells of; "" where there are none.
    """
    shown = sorted(entries, key=lambda one: (-one.changed, -one.number))[:ENTRIES_MAX]
    root = ET.Element(_tag("feed"))
    _text(root, "title", "netbisect: changes of packet forwarding")
    _text(root, "id", uuid.uuid5(_SPACE, f"feed/{words.clean(name)}").urn)
    _text(root, "updated", _time(shown[0].changed if shown else 0.0))
    _text(ET.SubElement(root, _tag("author")), "name", "netbisect")
    _link(root, "self", address, MEDIA_TYPE)
    _link(root, "alternate", page, "text/html")
    for one in shown:
        _entry(root, one)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _entry(root: ET.Element, one: Entry) -> None:
    element = ET.SubElement(root, _tag("entry"))
    change = words.change(one.effect) if one.effect is not None else words.kind(one.kind)
    _text(element, "title", f"Alert {one.number}: {one.place}: {change}")
    _text(element, "id", one.id)
    _text(element, "published", _time(one.announced))
    _text(element, "updated", _time(max(one.changed, one.announced)))
    _link(element, "alternate", one.address, "text/html")
    for scheme, term in (("kind", one.kind.value), ("state", one.state.value)):
        ET.SubElement(
            element, _tag("category"), {"term": term, "scheme": f"urn:netbisect:alert:{scheme}"}
        )
    _text(element, "summary", _summary(one, change))


def _summary(one: Entry, change: str) -> str:
    sentences = [f"{one.place}: {change}.", f"It is {words.state(one.state)}."]
    sentences.append(f"It lies between {one.good} and {one.bad}.")
    if one.culprit:
        sentences.append(f"The commit that made it, verified against its parent: {one.culprit}.")
    return " ".join(sentences)


def _tag(name: str) -> str:
    return f"{{{_ATOM}}}{name}"


def _text(parent: ET.Element, name: str, text: str) -> None:
    """XML has no control characters, not even as references."""
    ET.SubElement(parent, _tag(name)).text = words.in_xml(text)


def _link(parent: ET.Element, rel: str, address: str, media_type: str) -> None:
    if address:
        attributes = {"rel": rel, "type": media_type, "href": words.in_xml(address)}
        ET.SubElement(parent, _tag("link"), attributes)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
