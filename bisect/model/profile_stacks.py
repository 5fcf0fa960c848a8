"""Call stacks of CPU profiles: pmcstat callgraphs and folded stacks.

A stack lists functions, outermost first; a profile counts samples by stack. Profiles are compared
by shares, because totals depend on duration and sampling rate.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Stack: TypeAlias = tuple[str, ...]
Stacks: TypeAlias = Mapping[Stack, int]
"""Samples by stack, each at least 1."""
MOST_BYTES = 64 << 20
"""Limit of pmcstat's text; a normal one has some hundreds of kilobytes."""

_HEADER = re.compile(r"@ (?P<event>.+) \[(?P<samples>[0-9]{1,18}) samples?\]\s*\Z")
_NODE = re.compile(
    r"(?P<indent> *)[0-9]+\.[0-9]+%\s+\[(?P<samples>[0-9]{1,18})\]\s+(?P<place>.*)\Z"
)
_AT = re.compile(r"\s@ ")
"""Between a function and its image."""
_ADDRESS = re.compile(r"(0x)?[0-9a-fA-F]{5,}\Z")
_COUNT = re.compile(r"[0-9]{1,18}\Z")
_BREAKS = re.compile(r"[\x00-\x1f;\x7f-\x9f\u2028\u2029]")
_SHOWN = 60
"""Maximum characters of a quoted line."""


class StacksError(ValueError):
    """Invalid stacks; the message has the line."""


def file_name(scenario: str, kind: str) -> str:
    """File name of a profile: `folded` for stacks, `json` for metadata."""
    return f"profile-{scenario}.{kind}"


@dataclass(frozen=True, slots=True)
class StackShift:
    """Shares of a function, without callees, in two profiles."""

    function: str
    before: float
    """Share of all samples, 0 to 1."""
    after: float

    @property
    def change(self) -> float:
        """Change of the share."""
        return self.after - self.before


def parse(text: str) -> dict[Stack, int]:
    """Parses a callgraph of `pmcstat -G`, or folded lines `outer;inner 12`.

    Raises StacksError if it is neither, or without samples.
    """
    first = next((line for line in text.split("\n") if line.strip()), "")
    stacks = _callgraph(text) if _HEADER.match(first) or _NODE.match(first) else _folded(text)
    if not stacks:
        raise StacksError("it has no samples")
    return stacks


def folded(stacks: Stacks) -> str:
    """Folded lines `outer;inner 12`, sorted."""
    return "".join(f"{';'.join(map(_frame, one))} {stacks[one]}\n" for one in sorted(stacks))


def total(stacks: Stacks) -> int:
    """All samples of a profile."""
    return sum(stacks.values())


def share_shifts(before: Stacks, after: Stacks) -> list[StackShift]:
    """The functions of two profiles, those whose own share grew most first.

    Shares are of either profile's own total, so that a longer or a denser one weighs no more.
    """
    own = [_own(before), _own(after)]
    totals = [total(before), total(after)]
    found = [
        StackShift(name, *(counts[name] / whole for counts, whole in zip(own, totals, strict=True)))
        for name in {*own[0], *own[1]}
    ]
    return sorted(found, key=lambda shift: (-shift.change, shift.function))


def _own(stacks: Stacks) -> Counter[str]:
    own: Counter[str] = Counter()
    for stack, samples in stacks.items():
        own[stack[-1]] += samples
    return own


def _frame(name: str) -> str:
    """A name that cannot be taken for two, for the end of a line, or for one of a callgraph."""
    plain = _BREAKS.sub(" ", name).strip() or "[unknown]"
    return f"[{plain}]" if _NODE.match(f"{plain} ") else plain


def _quoted(number: int, line: str) -> str:
    shown = line.strip()
    return f"line {number}: {shown[:_SHOWN] + ('…' if len(shown) > _SHOWN else '')!r}"


# ------------------------------------------------------------------------------------ folded text


def _folded(text: str) -> dict[Stack, int]:
    stacks: defaultdict[Stack, int] = defaultdict(int)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        frames, _, count = line.strip().rpartition(" ")
        if not frames or not _COUNT.match(count):
            raise StacksError(
                f"{_quoted(number, line)}: expected functions with ; between them, a space and a "
                "number of samples, such as `ether_input;ip_tryforward 12`"
            )
        if int(count):
            stacks[tuple(_frame(frame) for frame in frames.split(";"))] += int(count)
    return dict(stacks)


# ------------------------------------------------------------------------- the output of pmcstat


@dataclass(slots=True)
class _Node:
    """A line of a callgraph: a function, and by their own lines those that had called it."""

    name: str
    left: int
    """Samples that none of its callers accounts for: their stacks end here."""


def _callgraph(text: str) -> dict[Stack, int]:
    """Stacks from the text of `pmcstat -G`.

    Its lines go from the function that was sampled to its callers, each a space further in; an
    image is named where it is not that of the line before.
    """
    stacks: defaultdict[Stack, int] = defaultdict(int)
    path: list[_Node] = []
    events: set[str] = set()
    image = ""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        header, node = _HEADER.match(line), _NODE.match(line.rstrip())
        if header:
            events.add(header["event"])
            _leave(path, 0, stacks)
        elif node is None:
            raise StacksError(
                f"{_quoted(number, line)}: expected a line of pmcstat's callgraph, such as "
                "`45.00%  [9]  ip_tryforward @ /boot/kernel/kernel`"
            )
        else:
            depth, samples = len(node["indent"]), int(node["samples"])
            name, own = _name_and_image(node["place"])
            image = own or image
            _leave(path, depth, stacks)
            if depth > len(path) or (path and samples > path[-1].left):
                raise StacksError(f"{_quoted(number, line)}: it does not belong to the line above")
            if path:
                path[-1].left -= samples
            path.append(_Node(_function(name, image), samples))
    _leave(path, 0, stacks)
    if len(events) > 1:
        raise StacksError(
            f"it counts {' and '.join(sorted(events))}, which cannot be added up; expected a "
            "profile of one event"
        )
    return dict(stacks)


def _leave(path: list[_Node], depth: int, stacks: dict[Stack, int]) -> None:
    """Ends the lines that are at that depth or further in."""
    while len(path) > depth:
        if path[-1].left:
            stacks[tuple(node.name for node in reversed(path))] += path[-1].left
        path.pop()


def _name_and_image(place: str) -> tuple[str, str]:
    """`ip_input @ /boot/kernel/kernel`; no image where it is that of the line before."""
    at = _AT.search(place)
    return (place[: at.start()].rstrip(), place[at.end() :]) if at else (place, "")


def _function(name: str, image: str) -> str:
    """An address without a name differs from kernel to kernel: its module stands for it."""
    if name and not _ADDRESS.match(name):
        return _frame(name)
    return f"[{_frame(image.rpartition('/')[2])}]" if image else "[unknown]"


def ranges(stacks: Sequence[Stack], begin: int, end: int, depth: int) -> Iterator[tuple[int, int]]:
    """Begins and ends of sorted stacks with the same function after `depth` common ones.

    Stacks that end there are left out.
    """
    while begin < end and len(stacks[begin]) == depth:
        begin += 1
    while begin < end:
        name, after = stacks[begin][depth], begin + 1
        while after < end and stacks[after][depth] == name:
            after += 1
        yield begin, after
        begin = after
