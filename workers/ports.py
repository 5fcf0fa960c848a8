"""Finds network interfaces in the output of ifconfig(8): drivers rename them, MACs stay."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from netbisect.workers.lab import Port

_HEAD = re.compile(r"^(\S+): flags=[0-9a-f]+<([^>]*)>", re.MULTILINE)
_ETHER = re.compile(r"^\s+(?:ether|hwaddr) ([0-9a-f:]{17})$", re.MULTILINE)
_STATUS = re.compile(r"^\s+status: (.+)$", re.MULTILINE)
_MEDIA = re.compile(r"^\s+media: (.+)$", re.MULTILINE)


class NoPortError(LookupError):
    """The machine has no such interface."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What ifconfig says of one interface."""

    name: str
    mac: str
    status: str
    """`active` when there is a link; "" where ifconfig does not say."""
    media: str
    up: bool = True
    """Whether it is switched on; without that it has no link."""


def interfaces(ifconfig: str) -> list[Interface]:
    """All interfaces in the output of `ifconfig -a`."""
    heads = list(_HEAD.finditer(ifconfig))
    found = []
    for head, following in itertools.zip_longest(heads, heads[1:]):
        body = ifconfig[head.end() : following.start() if following else None]
        ether, status, media = (pattern.search(body) for pattern in (_ETHER, _STATUS, _MEDIA))
        found.append(
            Interface(
                name=head[1],
                mac=ether[1] if ether else "",
                status=status[1].strip() if status else "",
                media=media[1].strip() if media else "",
                up="UP" in head[2].split(","),
            )
        )
    return found


def find(port: Port, ifconfig: str) -> Interface:
    """The interface that a lab file means: by MAC when it gives one, else by name.

    Raises:
        NoPortError: there is none; the message lists what there is.
    """
    present = interfaces(ifconfig)
    for interface in present:
        if interface.mac == port.mac if port.mac else interface.name == port.interface:
            return interface
    listed = ", ".join(f"{one.name} {one.mac}".strip() for one in present) or "none"
    wanted = f"with MAC {port.mac}" if port.mac else f"called {port.interface}"
    raise NoPortError(f"no interface {wanted}; there is {listed}")
