"""Converts rows to the dataclasses of bisect/model."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from netbisect.bisect.model.entities import Failure, Kernel
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.store.db.tables import Base, DudRow, KernelRow

T = TypeVar("T")


def record_of(kind: type[T], row: Base, **more: object) -> T:
    """The record of a row.

    Args:
        kind: A dataclass with the names of the columns.
        row: The row.
        more: Fields without a column, or with another value.
    """
    fields: Any = kind
    names = {one.name for one in dataclasses.fields(fields)} - more.keys()
    return kind(**{name: getattr(row, name) for name in names}, **more)


def kernel_of(row: KernelRow) -> Kernel:
    """The kernel of a row."""
    return record_of(Kernel, row, layout=split_kernel_name(row.revision)[1])


def failure_of(row: DudRow) -> Failure:
    """The failure of a row."""
    return record_of(Failure, row, layout=split_kernel_name(row.revision)[1])
