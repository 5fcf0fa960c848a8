"""Options that netmap's pkt-gen takes, and its ranges of addresses and ports."""

from __future__ import annotations

import getopt
import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

GETOPT = "46a:f:F:Nn:i:Il:d:s:D:S:b:c:o:p:T:w:WvR:XC:H:rP:zZAhBM:"
"""The option string of FreeBSD's pkt-gen: tools/tools/netmap/pkt-gen.c, main() (lines 2876 to 2882
in 13.2; the same in 14, in main and in apps/pkt-gen/pkt-gen.c of github.com/luigirizzo/netmap).
`U` is in none of them: a patch of the port net/pkt-gen had it from 2019 to 2022.
"""
USAGE = "Usage:\npkt-gen arguments\n"
"""Begin of the text that pkt-gen prints for `-h` and for an unknown option."""
REFUSED = 255
"""Exit status after an unknown option: usage(-1)."""
_DESCRIBED = re.compile(r"^ {5}-([A-Za-z0-9])\b", re.MULTILINE)
_END = r"(?:\[(?P<{0}6>[0-9a-f:]+)\]|(?P<{0}4>[0-9.]+))(?::(?P<{0}port>\d{{1,5}}))?"
_RANGE = re.compile(rf"{_END.format('a')}(?:-{_END.format('b')})?\Z")
_RING = re.compile(r"(?:netmap:)?(?P<interface>[^-*^/@]+)(?:-(?P<ring>\d{1,5}))?\Z")
_PORT = 1234
"""Port if none is given."""


class OptionError(ValueError):
    """An option that pkt-gen does not take; the message is what it prints."""


def parse(arguments: Sequence[str]) -> dict[str, str]:
    """The options of a command line, as `{"-i": "igb2", "-N": ""}`.

    Raises:
        OptionError: as the real pkt-gen, which then exits with `REFUSED`.
    """
    try:
        return dict(getopt.getopt(list(arguments), GETOPT)[0])
    except getopt.GetoptError as error:
        argument = "requires argument" in error.msg
        why = "option requires an argument" if argument else "illegal option"
        raise OptionError(f"pkt-gen: {why} -- {error.opt}\n{usage()}") from None


def usage() -> str:
    """The usage text, in the form of the real one: each option on a line of its own."""
    options = re.findall(r"(\w)(:?)", GETOPT)
    lines = [f"     -{letter}{' argument' if colon else ''}\n" for letter, colon in options]
    return f"{USAGE}{''.join(lines)}"


def described(text: str) -> frozenset[str]:
    """Letters of the options that a usage text describes; none if it is no usage text."""
    return frozenset(_DESCRIBED.findall(text)) if USAGE in text else frozenset()


def used(command: Iterable[str]) -> Iterator[str]:
    """Letters of the options in a command."""
    return (word[1] for word in command if re.fullmatch("-[A-Za-z0-9]", word))


def of_ring(interface: str, ring: int) -> str:
    """The port (-i) of one ring of an interface: nmreq_register_decode() in lib/libnetmap/nmreq.c.

    pkt-gen -p must be 1: with more threads, they begin with ring 0 whatever the port.
    """
    return f"netmap:{interface}-{ring}"


def parse_port(text: str) -> tuple[str, int | None]:
    """Interface and ring of a port (-i): `igb2`, `netmap:igb2` or `netmap:igb2-0`; None: all rings.

    A port of another form is its own interface.
    """
    found = _RING.match(text)
    if found is None:
        return text, None
    return found["interface"], None if found["ring"] is None else int(found["ring"])


@dataclass(frozen=True, slots=True)
class FlowRange:
    """Addresses and ports of `198.18.10.1:2001-198.18.10.20`; a missing port is that before."""

    version: int
    """4 or 6."""
    addresses: range
    ports: range

    @property
    def flows(self) -> int:
        """Number of pairs of address and port."""
        return len(self.addresses) * len(self.ports)


def parse_range(text: str) -> FlowRange | None:
    """A range of pkt-gen; None if it has another form.

    Raises:
        ValueError: an address is invalid; the message is the address.
    """
    found = _RANGE.match(text)
    if found is None:
        return None
    ends = []
    for end in ("a", "b") if found["b6"] or found["b4"] else ("a",):
        address = found[f"{end}6"] or found[f"{end}4"]
        try:
            ends.append(ipaddress.ip_address(address))
        except ValueError:
            raise ValueError(address) from None
    first, last = ends[0], ends[-1]
    if first.version != last.version:
        return None
    low = int(found["aport"] or _PORT)
    addresses = range(int(first), int(last) + 1)
    return FlowRange(first.version, addresses, range(low, int(found["bport"] or low) + 1))
