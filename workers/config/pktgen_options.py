"""Options that netmap's pkt-gen takes."""

from __future__ import annotations

import getopt
import re
from collections.abc import Iterable, Iterator, Sequence

GETOPT = "46a:f:F:Nn:i:Il:d:s:D:S:b:c:o:p:T:w:WvR:XC:H:rP:zZAhBM:"
"""The option string of FreeBSD's pkt-gen: tools/tools/netmap/pkt-gen.c, main() (lines 2876 to 2882
in 13.2; the same in 14, in main and in apps/pkt-gen/pkt-gen.c of github.com/luigirizzo/netmap).
`U` is in none of them: a patch of the port net/pkt-gen had it from 2019 to 2022.
"""
USAGE = "Usage:\npkt-gen arguments\n"
"""How the text begins that pkt-gen prints for `-h` and for an option that it does not take."""
REFUSED = 255
"""Exit status after an option that it does not take: usage(-1)."""
_DESCRIBED = re.compile(r"^ {5}-([A-Za-z0-9])\b", re.MULTILINE)


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
    lines = re.sub(r"(\w)(:?)", lambda one: _usage_line(one[1], bool(one[2])), GETOPT)
    return f"{USAGE}{lines}"


def _usage_line(letter: str, takes_argument: bool) -> str:
    return f"     -{letter}{' argument' if takes_argument else ''}\n"


def described(text: str) -> frozenset[str]:
    """Letters of the options that a usage text describes; none if it is no usage text."""
    return frozenset(_DESCRIBED.findall(text)) if USAGE in text else frozenset()


def used(command: Iterable[str]) -> Iterator[str]:
    """Letters of the options in a command."""
    return (word[1] for word in command if re.fullmatch("-[A-Za-z0-9]", word))
