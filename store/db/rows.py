"""Converts rows to the classes of bisect/model/entities.py and records.py."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import cattrs
from sqlalchemy import inspect

from netbisect.bisect.model.entities import Failure, Kernel
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.store.db.tables import Base, DudRow, KernelRow

T = TypeVar("T")

_converter = cattrs.Converter(detailed_validation=False)


def record_of(kind: type[T], row: Base, **more: object) -> T:
    """The record of a row.

    Args:
        kind: A dataclass. Its field `x` has the value of the column `x` or `x_id`.
        row: The row.
        more: Fields without such a column.
    """
    return _converter.structure({**columns_of(row), **more}, kind)


def columns_of(row: Base) -> dict[str, Any]:
    """The columns of a row by name, and those named `x_id` also as `x`."""
    values = {name: getattr(row, name) for name in _names(type(row))}
    return {name.removesuffix("_id"): value for name, value in values.items()} | values


@functools.cache
def _names(table: type[Base]) -> tuple[str, ...]:
    return tuple(inspect(table).column_attrs.keys())


def kernel_of(row: KernelRow) -> Kernel:
    """The kernel of a row."""
    return record_of(Kernel, row, layout=split_kernel_name(row.revision)[1])


def failure_of(row: DudRow) -> Failure:
    """The failure of a row."""
    return record_of(Failure, row, layout=split_kernel_name(row.revision)[1])
