"""Alerts as an Atom feed (RFC 4287)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from netbisect.reports.model.types import AlertDocument
from netbisect.reports.render import words

MEDIA_TYPE = "application/atom+xml"
_ATOM = "http://www.w3.org/2005/Atom"
ENTRIES_MAX = 100
"""Maximum number of entries, newest first."""
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:netbisect")

ET.register_namespace("", _ATOM)


def alert_id(number: int, testbed: str, opened_at: float) -> str:
    """Permanent identifier of an alert."""
    name = f"alert/{number}/{testbed}/{opened_at!r}".encode("utf-8", "replace").decode()
    return uuid.uuid5(_SPACE, name).urn


def feed(alerts: Iterable[AlertDocument], *, name: str, address: str = "", page: str = "") -> str:
    """The feed, the alert that was changed last first.

    `name` differs from those of other labs, such as the address of the service; it becomes the id
    of the feed. `address` is that of the feed, `page` that of the overview; "" if there is none.
    """
    shown = sorted(alerts, key=lambda one: (-one.changed_at, -one.number))[:ENTRIES_MAX]
    root = ET.Element(_tag("feed"))
    _text(root, "title", "netbisect: changes of packet forwarding")
    _text(root, "id", uuid.uuid5(_SPACE, f"feed/{words.clean(name)}").urn)
    _text(root, "updated", _time(shown[0].changed_at if shown else 0.0))
    _text(ET.SubElement(root, _tag("author")), "name", "netbisect")
    _link(root, "self", address, MEDIA_TYPE)
    _link(root, "alternate", page, "text/html")
    for one in shown:
        _entry(root, one)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _entry(root: ET.Element, alert: AlertDocument) -> None:
    element = ET.SubElement(root, _tag("entry"))
    change = words.change(alert.differences[0]) if alert.differences else words.kind(alert.kind)
    what = f"{alert.lead} on {alert.testbed}, {alert.branch}: {change}"
    _text(element, "title", f"Alert {alert.number}: {what}")
    _text(element, "id", alert.id)
    _text(element, "published", _time(alert.since))
    _text(element, "updated", _time(alert.changed_at))
    _link(element, "alternate", alert.address, "text/html")
    for scheme, term in (("kind", alert.kind.value), ("state", alert.state.value)):
        ET.SubElement(
            element, _tag("category"), {"term": term, "scheme": f"urn:netbisect:alert:{scheme}"}
        )
    sentences = [f"{what}.", f"It is {words.state(alert)}."]
    sentences.append(f"It lies between {alert.good.label} and {alert.bad.label}.")
    if alert.culprit:
        named = f"{alert.culprit.label} {alert.culprit.subject}"
        sentences.append(f"The commit that made it, verified against its parent: {named}.")
    _text(element, "summary", " ".join(sentences))


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
