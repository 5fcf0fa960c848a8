"""The tables of commits and facts, and the base of all tables; records.py has the other tables.

Rows of facts (kernels, boots, conditions, samples, duds) are never changed. Each change of a job
("question"), action ("decision"), alert or mail is also a row of `events`. Times are seconds since
the epoch, UTC.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, TypeVar

import cattrs
from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    MetaData,
    Text,
    UniqueConstraint,
    bindparam,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import (
    DeclarativeBase,
    InstrumentedAttribute,
    Mapped,
    MappedAsDataclass,
    mapped_column,
)
from sqlalchemy.types import TypeDecorator

from netbisect.bisect.model.entities import Reaction, Stage
from netbisect.bisect.model.evidence import split_kernel_name

T = TypeVar("T")

_converter = cattrs.Converter(detailed_validation=False)


def clean(text: str) -> str:
    """Replaces NUL and lone surrogates, which databases reject, in the output of consoles."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class CleanText(TypeDecorator[str]):
    """Text that is stored after `clean`; optionally a member of an enumeration."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum] | None = None) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's interface
        """Cleans a text."""
        return None if value is None else clean(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - see above
        """Returns the member of the enumeration; None for an empty text."""
        return value if self.kind is None else self.kind(value) if value else None


class StructuredJson(TypeDecorator[Any]):
    """JSON of a dataclass, or of a tuple."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, kind: Any) -> None:  # noqa: ANN401 - a type, perhaps generic
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401, ARG002 - SQLAlchemy's interface
        """Returns the value as JSON has it."""
        return _converter.unstructure(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401, ARG002 - see above
        """Returns an object of the class."""
        return None if value is None else _converter.structure(value, self.kind)


class Base(MappedAsDataclass, DeclarativeBase):
    """All tables; constraints have names, which migrations use."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - read by SQLAlchemy, never changed
        str: CleanText(),
        float: Double(),
        Stage: CleanText(Stage),
        Reaction: CleanText(Reaction),
        tuple[str, ...]: StructuredJson(tuple[str, ...]),
        tuple[float, ...]: StructuredJson(tuple[float, ...]),
        dict[str, str]: JSON(),
        dict[str, Any]: JSON(none_as_null=True),
    }


class CommitRow(Base, kw_only=True):
    """A commit on the first-parent line of some branch."""

    __tablename__ = "commits"

    revision: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(index=True)
    subject: Mapped[str]
    body: Mapped[str]
    author: Mapped[str]
    email: Mapped[str]
    at: Mapped[float]
    paths: Mapped[tuple[str, ...]]
    lines: Mapped[int]


class PlaceRow(Base, kw_only=True):
    """A commit and its number on the first-parent line of a branch."""

    __tablename__ = "places"

    branch: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[str] = mapped_column(ForeignKey(CommitRow.revision), index=True)


class _OfKernel:
    """A row about a kernel, whose revision may name a layout."""

    revision: Any

    @property
    def layout(self) -> int:
        """The layout of the kernel."""
        return split_kernel_name(self.revision)[1]


class KernelRow(Base, _OfKernel, kw_only=True):
    """A finished build; the newest one per revision, config and arch counts."""

    __tablename__ = "kernels"
    __table_args__ = (
        UniqueConstraint("revision", "config", "arch", "key", "at"),
        Index(None, "key", "revision"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    revision: Mapped[str]
    config: Mapped[str]
    arch: Mapped[str]
    identity: Mapped[str]
    key: Mapped[str]
    version: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[float]
    seconds: Mapped[float]
    decision_id: Mapped[int | None] = mapped_column(ForeignKey("decisions.id"), index=True)


class BootRow(Base, kw_only=True):
    """A successful boot."""

    __tablename__ = "boots"
    __table_args__ = (Index(None, "testbed", "revision"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    testbed: Mapped[str]
    kernel: Mapped[str]
    """Key of a kernel; no foreign key, because it may not be in the ledger."""
    revision: Mapped[str]
    at: Mapped[float]
    seconds: Mapped[float]
    decision_id: Mapped[int | None] = mapped_column(ForeignKey("decisions.id"), index=True)


class ConditionsRow(Base, kw_only=True):
    """Conditions of samples; equal testbeds may have the same digest."""

    __tablename__ = "conditions"

    testbed: Mapped[str] = mapped_column(primary_key=True)
    scenario: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    values: Mapped[dict[str, str]]
    at: Mapped[float]
    """Time of the first record."""


class SampleRow(Base, kw_only=True):
    """A run of a scenario on a boot."""

    __tablename__ = "samples"
    __table_args__ = (Index(None, "testbed", "scenario", "valid", "at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    boot: Mapped[str] = mapped_column("boot_id", ForeignKey(BootRow.id), index=True)
    testbed: Mapped[str]
    scenario: Mapped[str]
    pps: Mapped[float]
    offered_pps: Mapped[float]
    received: Mapped[tuple[float, ...]]
    offered: Mapped[tuple[float, ...]]
    problems: Mapped[tuple[str, ...]]
    warnings: Mapped[tuple[str, ...]]
    valid: Mapped[bool]
    """Sample.valid, for queries."""
    conditions: Mapped[str]
    """Digest; no foreign key, because conditions are optional."""
    at: Mapped[float]
    seconds: Mapped[float]
    decision_id: Mapped[int | None] = mapped_column(ForeignKey("decisions.id"), index=True)


class FailureRow(Base, _OfKernel, kw_only=True):
    """A failed build or trial."""

    __tablename__ = "duds"

    id: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[str] = mapped_column(index=True)
    stage: Mapped[Stage]
    reaction: Mapped[Reaction]
    why: Mapped[str]
    at: Mapped[float]
    seconds: Mapped[float]
    testbed: Mapped[str]
    scenario: Mapped[str]
    log: Mapped[str]
    fault: Mapped[str] = mapped_column(server_default="", default="")
    decision_id: Mapped[int | None] = mapped_column(ForeignKey("decisions.id"), index=True)


def one_of(column: InstrumentedAttribute[str], values: Iterable[str]) -> ColumnElement[bool]:
    """The condition that a column has one of any number of values.

    They are literals: SQLite takes 32,766 parameters, PostgreSQL 65,535.
    """
    literals = bindparam(None, list(values), column.type, expanding=True, literal_execute=True)
    return column.in_(literals)


def record_of(kind: type[T], row: object, /, **more: object) -> T:
    """The record or document of a row or another record.

    It takes the attributes of the row that have the names of its fields, and those in `more`.
    """
    fields: Any = kind
    names = {one.name for one in dataclasses.fields(fields)} - more.keys()
    return kind(**{name: getattr(row, name) for name in names if hasattr(row, name)}, **more)
