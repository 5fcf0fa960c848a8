"""Reads a TOML file into dataclasses; every line of an error is `FILE: KEY: problem`."""

from __future__ import annotations

import difflib
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from cattrs import BaseValidationError, Converter, ForbiddenExtraKeysError, transform_error
from cattrs.cols import homogenous_tuple_structure_factory, mapping_structure_factory

from netbisect.errors import UserError

T = TypeVar("T")
Scalar: TypeAlias = str | int
TextOrTable: TypeAlias = str | dict[str, str]
OneOrMore: TypeAlias = T | tuple[T, ...]
"""A table, or a list of such tables."""

_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class FileError(UserError, ValueError):
    """An unusable configuration file."""

    faults: Mapping[str, str] = MappingProxyType({})
    """Problems by place, such as `wheels[0].size`."""


def _wrong_type(expected: str, value: object) -> TypeError:
    kind = type(value)
    shown = f" ({value!r})" if kind in (str, int, float, bool) else ""
    return TypeError(f"expected {expected}, found {_NAMES.get(kind, kind.__name__)}{shown}")


def _only(expected: str, *kinds: type) -> Any:
    """A hook without conversions: `"5"` is not a number and `true` is not 1."""

    def structure(value: object, wanted: Any) -> object:
        if type(value) not in kinds:
            raise _wrong_type(expected, value)
        return wanted(value) if wanted in (float, Path) else value

    return structure


def _origin(kind: Any) -> object:
    return get_origin(kind)


def _text_or_table(value: object, _: Any) -> object:
    texts = value.values() if isinstance(value, dict) else [value]
    if all(type(one) is str for one in texts):
        return value
    raise _wrong_type("a string or a table of strings", value)


def _is_one_or_more(kind: Any) -> bool:
    arguments = get_args(kind)
    return get_origin(kind) is Union and get_args(arguments[1]) == (arguments[0], ...)


def _one_or_more(kind: Any, converter: Converter) -> Any:
    table, tables = get_args(kind)

    def structure(value: object, _: Any) -> object:
        if isinstance(value, dict | list):
            return converter.structure(value, tables if isinstance(value, list) else table)
        raise _wrong_type("a table or a list of tables", value)

    return structure


def _container(kind: type, hook: Any) -> Any:
    def structure(value: object, wanted: Any) -> object:
        if not isinstance(value, kind):
            raise _wrong_type(_NAMES[kind], value)
        return hook(value, wanted)

    return structure


@functools.cache
def strict_converter() -> Converter:
    """The converter; cached because it compiles code for each class."""
    converter = Converter(forbid_extra_keys=True)
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _only(_NAMES[kind], kind))
    converter.register_structure_hook(float, _only(_NAMES[float], float, int))
    converter.register_structure_hook(Path, _only(_NAMES[str], str))
    converter.register_structure_hook(Scalar, _only("a string or a whole number", str, int))
    converter.register_structure_hook(TextOrTable, _text_or_table)
    converter.register_structure_hook_factory(
        lambda kind: _origin(kind) is tuple,
        lambda kind: _container(list, homogenous_tuple_structure_factory(kind, converter)),
    )
    converter.register_structure_hook_factory(
        _is_one_or_more, lambda kind: _one_or_more(kind, converter)
    )
    converter.register_structure_hook_factory(
        lambda kind: _origin(kind) is dict,
        lambda kind: _container(dict, mapping_structure_factory(kind, converter)),
    )
    converter.register_structure_hook_factory(
        is_dataclass, lambda kind: _container(dict, converter.gen_structure_attrs_fromdict(kind))
    )
    return converter


def _describe(error: BaseException, _: type | None = None) -> str:
    if isinstance(error, KeyError):
        return "this key is missing"
    if not isinstance(error, ForbiddenExtraKeysError):
        return str(error).replace("not in literal typing.Literal", "is not one of ")
    known = [field.name for field in fields(cast("Any", error.cl))]
    unknown = sorted(error.extra_fields)
    near = difflib.get_close_matches(unknown[0], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
    return f"unknown key {', '.join(map(repr, unknown))}; {hint}"


def structure(data: object, kind: type[T], *, source: str) -> T:
    """`data` as a `kind`.

    Raises:
        FileError: one line per problem, each begins with `source`.
    """
    try:
        return strict_converter().structure(data, kind)
    except (BaseValidationError, ValueError, TypeError) as error:
        faults: dict[str, str] = {}
        for line in transform_error(error, path="", format_exception=_describe):
            message, _, place = line.rpartition(" @ ")
            faults.setdefault(place.removeprefix("."), message)
        lines = (
            f"{source}: {place}: {message}" if place else f"{source}: {message}"
            for place, message in faults.items()
        )
        raised = FileError("\n".join(lines))
        raised.faults = faults
        raise raised from error


def load(path: Path, kind: type[T]) -> T:
    """The file at `path` as a `kind`.

    Raises:
        FileError: the file cannot be read, is not TOML, or does not fit.
    """
    return structure(read(path), kind, source=str(path))


def read(path: Path) -> dict[str, Any]:
    """The tables of the file at `path`.

    Raises:
        FileError: the file cannot be read, or is not TOML.
    """
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # RecursionError: deeply nested brackets
        raise FileError(f"{path}: not a TOML file: {error}") from error


def resolve_paths(table: T, folder: Path) -> T:
    """The table with its relative paths resolved against a folder, also those of its tables.

    Raises:
        FileError: a path begins with `~` and a user that this host does not have.
    """
    if isinstance(table, Path):
        try:
            return cast("T", folder / table.expanduser())
        except RuntimeError as error:
            raise FileError(f"{table}: this host has no such user; expected a full path") from error
    if isinstance(table, tuple):
        return cast("T", tuple(resolve_paths(one, folder) for one in table))
    if not is_dataclass(table) or isinstance(table, type):
        return table
    names = [field.name for field in fields(table)]
    return replace(table, **{name: resolve_paths(getattr(table, name), folder) for name in names})
