"""What netbenches calls things, and what they are called here.

Its results lie in `HARDWARE/NIC/TOPIC/results/RESULT`, in files named after image,
configuration and traffic, of which any may be left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_CORES = re.compile(r"_(\d+x)?\d+Cores$")
_FIREWALL = re.compile(r"(pf|ipfw|ipf)-(stateful|stateless)l?")
_NUMBER = re.compile(r"(?:^|(?<=[_.-]))([rnc]?)([23]\d{5})(?!\d)", re.IGNORECASE)
"""In an image's name. Since netbenches began, revisions have been between 200000 and 399999;
other numbers in names are sizes of tables."""
_TOLD_NUMBER = re.compile(r"\b([rnc])([23]\d{5})(?=M\b|\b|_)")
"""In `uname -v`, where M says that the sources were modified, and in a directory's name."""
_SIZE = re.compile(r"\d+[KM]")
_FAMILIES = {"inet4", "inet6"}
_RAW = {"RAW", "raw"}


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of results."""

    hardware: str
    nic: str
    topic: str
    result: str

    @property
    def testbed(self) -> str:
        """The machine, and what sets this series of measurements apart from its others."""
        hardware = _CORES.sub("", self.hardware)
        vendor, _, model = self.nic.partition("_")
        topic = "" if self.topic == "firewalls" else self.topic
        result = self.result.removeprefix("fbsd")
        return slug(" ".join((hardware, model or vendor, topic, result)))

    @property
    def directory(self) -> str:
        """As netbenches writes it."""
        parts = (self.hardware, self.nic, self.topic, "results" if self.nic else "", self.result)
        return "/".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Label:
    """The parts of a file's name."""

    image: str
    config: str
    traffic: str


@dataclass(frozen=True, slots=True)
class NetbenchesRevision:
    """What an image was built from."""

    name: str
    """Such as r311849, n255412, or with more than the revision in it r295150+mbuf."""
    number: int
    """Of Subversion's revision, or git's count of commits."""
    variant: str
    """What else is in the image: a patch, an option, another branch; "" for nothing."""
    counted_by_git: bool


def slug(text: str) -> str:
    """Lower case letters, digits, and single hyphens between them."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def place_of(directory: Path) -> Place:
    """Where these results come from; outside netbenches' tree all that is known is a name."""
    parts = directory.parts
    if parts and parts[-1] in _RAW:
        parts = parts[:-1]
    for index in range(len(parts) - 2, 2, -1):
        if parts[index] == "results":
            hardware, nic, topic = parts[index - 3 : index]
            return Place(hardware, nic, topic, "/".join(parts[index + 1 :]))
    return Place("", "", "", parts[-1] if parts else "")


def label_of(text: str, info: dict[str, str]) -> Label:
    """Takes a label apart: as the .info file beside it does, or by the names that are known.

    An .info file that speaks of another label is not believed: files were renamed later.
    """
    told = Label(info.get("IMAGE", ""), info.get("CFG", ""), info.get("PKTGEN", ""))
    if ".".join(part for part in (told.image, told.config, told.traffic) if part) == text:
        return told
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
    """The scenario's name, as workers/scenarios/ has it where it is one of those.

    `fastforwarding` is what forwarding was called before FreeBSD 11, and a configuration that
    is left out is forwarding, unless the topic is another.
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
    """The revision of an image: by its own name, by `uname -v`, or by the directory's name.

    None when none of them names a revision by its number.
    """
    found = _NUMBER.search(image)
    if found is not None:
        variant = f"{image[: found.start()]} {image[found.end() :]}"
    else:
        found = _TOLD_NUMBER.search(uname) or _TOLD_NUMBER.search(directory)
        variant = image
    if found is None:
        return None
    letter, digits = found[1].lower() or "r", found[2]
    variant = re.sub(r"[^A-Za-z0-9.]+", "-", variant).strip("-.")
    name = f"{letter}{digits}" + (f"+{variant}" if variant else "")
    return NetbenchesRevision(name, int(digits), variant, counted_by_git=letter != "r")


def info_of(text: str) -> dict[str, str]:
    """The fields of an .info file, of today's form or of that of 2015 and before."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name in {"IMAGE", "CFG", "PKTGEN", "UNAME"}:
            fields[name] = value.strip().strip('"')
        elif line.startswith("FreeBSD "):
            fields["UNAME"] = line
    return fields
