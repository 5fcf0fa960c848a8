"""Checks shared by the tables of the lab file, and amounts of disk space."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar

from netbisect.workers.config.toml import FileError

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
HASH = re.compile(r"[0-9a-f]{40}\Z")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SSH_NAME = re.compile(r"[^\s-]")
IDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?)?B\Z")
_FACTORS = {
    f"{prefix}{binary}": base**power
    for binary, base in (("", 1000), ("i", 1024))
    for power, prefix in enumerate("kMGT", 1)
}


def check(condition: object, message: str) -> None:
    """Raises ValueError with `message` unless the condition holds."""
    if not condition:
        raise ValueError(message)


def check_form(
    owner: object, name: str, form: re.Pattern[str], wanted: str, *, optional: bool = True
) -> None:
    """Checks the form of a text of `owner`; an optional one may be empty."""
    text = getattr(owner, name)
    check((optional and not text) or form.match(text), f"{name} {text!r}: expected {wanted}")


def check_choice(owner: object, name: str, choices: Collection[str], wanted: str = "") -> None:
    """Checks that a text of `owner` is one of the choices."""
    text = getattr(owner, name)
    wanted = wanted or " or ".join(map(repr, choices))
    check(text in choices, f"{name} {text!r}: expected {wanted}")


def check_name(name: str) -> None:
    """Checks the name of a builder, testbed, scenario or overlay."""
    check(
        NAME.match(name),
        f"name {name!r}: expected lower-case letters, digits, '.', '_' or '-', at most 63",
    )


def check_modules(names: Iterable[str], key: str = "modules") -> None:
    """Checks names of folders in sys/modules."""
    for name in names:
        check(_MODULE.match(name), f"{key}: {name!r} is no folder of sys/modules, such as if_ovpn")


def check_values(values: Iterable[str]) -> None:
    """Checks names of the variables of commands."""
    for name in values:
        check(_VARIABLE.match(name), f"values: {name!r}: expected the name of a variable of sh(1)")


def check_size(name: str, text: str) -> None:
    """Checks an amount of disk space."""
    try:
        parse_size(text)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def check_unique(kind: str, names: list[str]) -> None:
    """Checks that no name occurs twice."""
    for name in names:
        check(names.count(name) == 1, f"two {kind}s are named {name!r}")


def parse_size(text: str) -> int:
    """Bytes: `20 GB` is 20e9, `20 GiB` is 20 * 2**30.

    Raises:
        ValueError: not an amount, or zero.
    """
    match = _AMOUNT.match(text)
    amount = int(float(match[1]) * _FACTORS.get(match[2] or "", 1)) if match else 0
    if amount <= 0:
        raise ValueError(f"{text!r}: expected an amount of space, such as '20 GB' or '500 MiB'")
    return amount


def format_size(amount: int) -> str:
    """The amount in powers of 1000: `1.5 GB`."""
    for prefix in ("T", "G", "M", "k"):
        if amount >= _FACTORS[prefix]:
            return f"{round(amount / _FACTORS[prefix], 1):g} {prefix}B"
    return f"{amount} B"


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def find_named(items: Iterable[_N], name: str, kind: str) -> _N:
    """The item of that name.

    Raises:
        FileError: unknown name; the message lists the known ones.
    """
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items) or "none"
    raise FileError(f"there is no {kind} {name!r} in the lab file; found {known}")
