"""Reads a TOML file into dataclasses, and says exactly where it is wrong.

Every complaint has the form `FILE: KEY: what is wrong, what would be right`.
"""

from __future__ import annotations

import difflib
import functools
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from cattrs import BaseValidationError, Converter
from cattrs.cols import mapping_structure_factory
from cattrs.errors import (
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.v import transform_error

T = TypeVar("T")
Scalar: TypeAlias = str | int

_SAID_AS: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


class FileError(ValueError):
    """A configuration file that cannot be used; the message is for its author."""


class _WrongTypeError(TypeError):
    """A value of another type than the key wants."""


def _found(value: object) -> str:
    kind = type(value)
    if kind in _SAID_AS:
        return f"{_SAID_AS[kind]} ({value!r})"
    if kind is list:
        return "a list"
    return "a table" if kind is dict else kind.__name__


def _exactly(wanted: type) -> Any:
    """A hook that converts nothing: `"5"` is no number and `true` is no 1."""

    def structure(value: object, _: type) -> object:
        if type(value) is wanted:
            return value
        if wanted is float and type(value) is int:
            return float(value)
        raise _WrongTypeError(f"expected {_SAID_AS[wanted]}, found {_found(value)}")

    return structure


def _scalar(value: object, _: Any) -> object:
    if type(value) in (str, int):
        return value
    raise _WrongTypeError(f"expected a string or a whole number, found {_found(value)}")


def _sequence_of(converter: Converter) -> Any:
    def structure(value: object, wanted: Any) -> object:
        if not isinstance(value, list):
            raise _WrongTypeError(f"expected a list, found {_found(value)}")
        (item, *_) = wanted.__args__
        problems, items = [], []
        for index, entry in enumerate(value):
            try:
                items.append(converter.structure(entry, item))
            except Exception as error:  # noqa: BLE001 - collected, all are reported at once
                error.add_note(IterableValidationNote("in a list", index, item))
                problems.append(error)
        if problems:
            raise IterableValidationError("in a list", problems, wanted)
        return tuple(items)

    return structure


def _origin(kind: Any) -> object:
    """What `kind` is made of: tuple for tuple[int, ...]."""
    return getattr(kind, "__origin__", None)


def _table(structure: Any) -> Any:
    """The hook of a table, for nothing but tables."""

    def checked(value: object, wanted: Any) -> object:
        if not isinstance(value, dict):
            raise _WrongTypeError(f"expected a table, found {_found(value)}")
        return structure(value, wanted)

    return checked


@functools.cache
def strict_converter() -> Converter:
    """The converter that accepts what was meant and nothing that merely looks like it.

    It makes the code for a class when it first meets it, which takes longer than to run it.
    """
    converter = Converter(forbid_extra_keys=True)
    for wanted in (str, int, float, bool):
        converter.register_structure_hook(wanted, _exactly(wanted))
    converter.register_structure_hook(Scalar, _scalar)
    converter.register_structure_hook(Path, lambda value, _: Path(_exactly(str)(value, str)))
    converter.register_structure_hook_func(
        lambda kind: _origin(kind) is tuple, _sequence_of(converter)
    )
    converter.register_structure_hook_factory(
        is_dataclass, lambda kind: _table(converter.gen_structure_attrs_fromdict(kind))
    )
    converter.register_structure_hook_factory(
        lambda kind: _origin(kind) is dict,
        lambda kind: _table(mapping_structure_factory(kind, converter)),
    )
    return converter


def _say(error: BaseException, _: type | None) -> str:
    if isinstance(error, ForbiddenExtraKeysError):
        known = [field.name for field in fields(cast("Any", error.cl))]
        said = []
        for key in sorted(error.extra_fields):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
            said.append(f"unknown key {key!r}; {hint}")
        return "; ".join(said)
    if isinstance(error, KeyError):
        return "this key is missing"
    return str(error)


def _place_first(line: str) -> str:
    what, _, place = line.rpartition(" @ ")
    place = place.removeprefix("$").removeprefix(".")
    return f"{place}: {what}" if place else what


def structure(data: object, kind: type[T], *, source: str) -> T:
    """`data` as a `kind`.

    Raises:
        FileError: one line for each thing that is wrong.
    """
    try:
        return strict_converter().structure(data, kind)
    except (BaseValidationError, ValueError, TypeError) as error:
        lines = [_place_first(line) for line in transform_error(error, "$", _say)]
        raise FileError("\n".join(f"{source}: {line}" for line in lines)) from error


def load(path: Path, kind: type[T]) -> T:
    """The file at `path` as a `kind`.

    Raises:
        FileError: the file is absent, is not TOML, or does not fit.
    """
    try:
        with path.open("rb") as stream:
            data = tomllib.load(stream)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also of numbers and brackets without an end
        raise FileError(f"{path}: not a TOML file: {error}") from error
    return structure(data, kind, source=str(path))
