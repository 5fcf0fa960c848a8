"""Makes the SVG of a plotting library small: the same picture in a quarter of the bytes.

A page of a large case has two dozen pictures. As they are written for any program, every place has
six digits, every text its own style, and every tick two groups round it. Here places are
rounded to a tenth of a point, equal styles become classes, and groups that say nothing go.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree as ET

_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_REFERENCE = re.compile(r"#([^)\"]+)")
_PATH = re.compile(r"([MLHVCQZz])([^MLHVCQZz]*)")
_FONT = re.compile(r"font-family: [^;]+; ?")
_LEVEL = re.compile(r"rotate\(-?0 [^)]*\)")
_ROUND = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
"""What matplotlib says of all elements, for those of this picture alone."""


_UNREADABLE = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML can hold."""


def small(svg: str) -> str:
    """An `<svg>` element with the same picture, for a page: without prefixes of XML.

    Args:
        svg: An element as matplotlib writes it; its ids stay where something refers to them.
    """
    root = ET.fromstring(_UNREADABLE.sub("\ufffd", svg))  # noqa: S314 - our own drawing
    styles: dict[str, str] = {}
    fonts = _FONT.findall(svg)
    for element in root.iter():
        _tidy(element, styles)
    kept = set(_references(root))
    _thin(root, kept)
    for name, value in _ROUND.items():
        root.set(name, value)
    if fonts:
        root.set("style", fonts[0].rstrip("; ").replace(": ", ":"))
    form = ET.Element(f"{_SVG}style")
    form.text = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    root.insert(0, form)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
    root.set("xmlns", _SVG[1:-1])
    return ET.tostring(root, encoding="unicode")


def _tidy(element: ET.Element, styles: dict[str, str]) -> None:
    """Makes what one element says short."""
    element.tail = None
    if element.text is not None and not element.text.strip():
        element.text = None
    style = _FONT.sub("", element.attrib.pop("style", "")).replace(": ", ":").replace("; ", ";")
    if style:
        element.set("class", styles.setdefault(style, _name(style)))
    if (link := element.attrib.pop(_LINK, None)) is not None:
        element.set("href", link)
    for name in ("x", "y", "width", "height"):
        if name in element.attrib:
            element.set(name, _NUMBER.sub(_rounded, element.attrib[name]))
    if "transform" in element.attrib:
        turned = _LEVEL.sub("", element.attrib.pop("transform")).strip()
        if turned:
            element.set("transform", _NUMBER.sub(_rounded, turned))
    if "d" in element.attrib:
        element.set("d", _path(element.attrib["d"]))


def _name(style: str) -> str:
    """The same for the same style in all pictures of a page, where one form has it for all."""
    return f"s{zlib.crc32(style.encode()):x}"


def _rounded(found: re.Match[str]) -> str:
    return _short(float(found[0]))


def _short(value: float) -> str:
    return f"{round(value, 1) or 0:g}"


def _path(d: str) -> str:
    """The same lines: along an axis, only how far."""
    made, x, y = [], 0.0, 0.0
    for command, rest in _PATH.findall(d):
        places = [round(float(one), 1) for one in rest.split()]
        if command == "L" and places[1] == y:
            made.append(f"h{_short(places[0] - x)}")
        elif command == "L" and places[0] == x:
            made.append(f"v{_short(places[1] - y)}")
        else:
            made.append(command + " ".join(map(_short, places)))
        if places:
            x, y = places[-2:]
    return "".join(made)


def _references(root: ET.Element) -> Iterator[str]:
    for element in root.iter():
        for value in (element.get("href", ""), element.get("clip-path", "")):
            yield from _REFERENCE.findall(value)


_UNSEEN = _name("fill:none")
"""Neither filled nor drawn."""


def _thin(parent: ET.Element, kept: set[str]) -> None:
    """Drops ids that nothing refers to, what matplotlib says of itself, and empty groups."""
    children: list[ET.Element] = []
    for child in parent:
        _thin(child, kept)
        if child.get("id") not in kept:
            child.attrib.pop("id", None)
        match child.tag.removeprefix(_SVG):
            case "metadata":
                continue
            case "style" | "defs" if not len(child):
                continue
            case "path" if child.get("class") == _UNSEEN and "id" not in child.attrib:
                continue
            case "g" if not child.attrib:
                children.extend(child)
                continue
        children.append(child)
    parent[:] = children
