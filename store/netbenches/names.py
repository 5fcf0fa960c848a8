"""Translates names of netbenches.

Results are in `HARDWARE/NIC/TOPIC/results/RESULT`, in files named after image, configuration and
traffic (all optional).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_CORES = re.compile(r"_(\d+x)?\d+Cores$")
_FIREWALL = re.compile(r"(pf|ipfw|ipf)-(stateful|stateless)l?")
_NUMBER = re.compile(r"(?:^|(?<=[_.-]))([rnc]?)([23]\d{5})(?!\d)", re.IGNORECASE)
"""Number of a revision in the name of an image, 200000 to 399999; others are sizes of tables."""
_FOLDER_NUMBER = re.compile(r"\b([rnc])([23]\d{5})(?=M\b|\b|_)")
"""Number of a revision in the name of a folder, or in `uname -v` (M: modified sources)."""
_SIZE = re.compile(r"\d+[KM]")
_FAMILIES = {"inet4", "inet6"}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of results."""

    hardware: str
    nic: str
    topic: str
    result: str

    @property
    def testbed(self) -> str:
        """Name of the testbed: hardware, NIC, topic and result."""
        hardware = _CORES.sub("", self.hardware)
        vendor, _, model = self.nic.partition("_")
        topic = "" if self.topic == "firewalls" else self.topic
        result = self.result.removeprefix("fbsd")
        return slug(" ".join((hardware, model or vendor, topic, result)))

    @property
    def directory(self) -> str:
        """Path in the repository of netbenches."""
        parts = (self.hardware, self.nic, self.topic, "results" if self.nic else "", self.result)
        return "/".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Label:
    """Parts of the name of a file."""

    image: str
    config: str
    traffic: str


@dataclass(frozen=True, slots=True)
class NetbenchesRevision:
    """Sources of an image."""

    name: str
    """Such as r311849, n255412, or r295150+mbuf with a variant."""
    number: int
    """Subversion number, or git's count of commits."""
    variant: str
    """Patch, option or other branch; "" for none."""
    counted_by_git: bool

    @property
    def branch(self) -> str:
        """Such as head, main, or head+mbuf with a variant."""
        line = "main" if self.counted_by_git else "head"
        return f"{line}+{self.variant}" if self.variant else line


def slug(text: str) -> str:
    """A text as lower-case letters and digits with single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def place_of(directory: Path) -> Place:
    """Place of a folder; outside of the tree of netbenches, only its name."""
    parts = directory.parts
    for index in range(len(parts) - 2, 2, -1):
        if parts[index] == "results":
            hardware, nic, topic = parts[index - 3 : index]
            return Place(hardware, nic, topic, "/".join(parts[index + 1 :]))
    return Place("", "", "", directory.name)


def label_of(text: str, info: dict[str, str]) -> Label:
    """Splits a label, according to its .info file or to known names.

    An .info file of another label is ignored, because files were renamed.
    """
    label = Label(info.get("IMAGE", ""), info.get("CFG", ""), info.get("PKTGEN", ""))
    if ".".join(part for part in (label.image, label.config, label.traffic) if part) == text:
        return label
    rest, _, last = text.rpartition(".")
    traffic = ""
    if last in _FAMILIES or (rest and _SIZE.fullmatch(last)):
        text, traffic = rest, last
    rest, _, last = text.rpartition(".")
    if last in {"forwarding", "fastforwarding"} or _FIREWALL.fullmatch(last):
        return Label(rest, last, traffic)
    if _NUMBER.search(text):
        return Label(text, "", traffic)
    return Label("", text, traffic)


def scenario_of(label: Label, topic: str) -> str:
    """Name of the scenario, as in workers/scenarios/ if it is there.

    `fastforwarding` is the name of forwarding before FreeBSD 11. Without a configuration, the
    scenario is the topic, or forwarding.
    """
    family = label.traffic if label.traffic in _FAMILIES else "inet4"
    extra = "" if label.traffic in _FAMILIES else slug(label.traffic)
    firewall = _FIREWALL.fullmatch(label.config)
    if firewall:
        what = f"{firewall[1]}-{firewall[2]}"
    elif label.config in {"forwarding", "fastforwarding"}:
        what = "forwarding"
    elif label.config:
        what = slug(label.config)
    else:
        what = slug(topic) if topic not in {"", "firewalls"} else "forwarding"
    return "-".join(part for part in (family, what, extra) if part)


def revision_of(image: str, uname: str, directory: str) -> NetbenchesRevision | None:
    """Revision of an image by its name, `uname -v`, or the name of the folder.

    None without the number of a revision.
    """
    found = _NUMBER.search(image)
    if found is not None:
        variant = f"{image[: found.start()]} {image[found.end() :]}"
    else:
        found = _FOLDER_NUMBER.search(uname) or _FOLDER_NUMBER.search(directory)
        variant = image
    if found is None:
        return None
    return numbered(found[1].lower() or "r", int(found[2]), variant)


def numbered(letter: str, number: int, text: str) -> NetbenchesRevision:
    """The revision with a number of Subversion (letter r) or git; `text` names its variant."""
    variant = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")
    name = f"{letter}{number}" + (f"+{variant}" if variant else "")
    return NetbenchesRevision(name, number, variant, counted_by_git=letter != "r")


def info_of(text: str) -> dict[str, str]:
    """Fields of an .info file, in the current format or that of 2015 and before."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name in {"IMAGE", "CFG", "PKTGEN", "UNAME"}:
            fields[name] = value.strip().strip('"')
        elif line.startswith("FreeBSD "):
            fields["UNAME"] = line
    return fields
