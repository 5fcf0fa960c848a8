"""Kernel configurations of revisions: one for all, with exceptions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from sqlalchemy import ColumnElement, and_, or_
from sqlalchemy.orm import InstrumentedAttribute

from netbisect.bisect.model.evidence import split_kernel_name


@dataclass(frozen=True, slots=True)
class BuildVariants:
    """Kernels of a testbed."""

    config: str
    arch: str
    variants: Mapping[str, str] = field(default_factory=dict)
    """Exceptions: configurations by revision."""

    def of(self, revision: str) -> str:
        """The configuration of a revision."""
        return self.variants.get(split_kernel_name(revision)[0], self.config)

    def among(
        self,
        revisions: Collection[str],
        revision: InstrumentedAttribute[str],
        config: InstrumentedAttribute[str],
    ) -> ColumnElement[bool]:
        """The condition that a row is about one of these kernels, for two columns."""
        by_config = sorted((self.of(one), one) for one in revisions)
        return or_(
            False,
            *(
                and_(config == name, revision.in_([one for _, one in group]))
                for name, group in groupby(by_config, key=lambda item: item[0])
            ),
        )
