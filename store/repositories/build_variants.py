"""Which builds stand for a revision: those of one configuration, or of the one in its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from sqlalchemy import ColumnElement, and_, or_
from sqlalchemy.orm import InstrumentedAttribute

from netbisect.bisect.model.evidence import split_kernel_name


@dataclass(frozen=True, slots=True)
class BuildVariants:
    """The kernels that a testbed runs."""

    config: str
    arch: str
    variants: Mapping[str, str] = field(default_factory=dict)
    """By revision: the configuration that stands for `config`, where it is another one."""

    def of(self, revision: str) -> str:
        """The configuration of this revision's kernels."""
        return self.variants.get(split_kernel_name(revision)[0], self.config)

    def among(
        self,
        revisions: Collection[str],
        revision: InstrumentedAttribute[str],
        config: InstrumentedAttribute[str],
    ) -> ColumnElement[bool]:
        """The condition on two columns that a row is of one of these kernels."""
        by_config = sorted((self.of(one), one) for one in revisions)
        return or_(
            False,
            *(
                and_(config == name, revision.in_([one for _, one in group]))
                for name, group in groupby(by_config, key=lambda item: item[0])
            ),
        )
