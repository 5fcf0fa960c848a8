"""Writes a whole site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.site.files import JOB_KINDS, LISTED, pair_page
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import progress_of
from netbisect.steps.site import revision_names
from netbisect.steps.site.build import PageBuilder
from netbisect.steps.site.folder import Pair, put
from netbisect.steps.site.index_pages import IndexPages, overview
from netbisect.store.ledger import Ledger


def write(
    ledger: Ledger, lab: LabContext, folder: Path, pairs: Sequence[Pair], pair: Pair | None = None
) -> tuple[Pair, ...]:
    """Writes all pages of a site into an empty folder; returns the pairs.

    Each of `pairs`, revisions to compare, has a page; `pair` is one more, by names of users.

    Raises:
        SiteRevisionError: A revision of the pair was not measured.
        StoreError: The database failed.
    """
    if pair is not None:
        before, after = (revision_names.resolve(ledger, name).revision for name in pair)
        pairs = [*(one for one in pairs if one != (before, after)), (before, after)]
    ends = [
        (revision_names.resolve(ledger, a), revision_names.resolve(ledger, b)) for a, b in pairs
    ]
    builder = PageBuilder(lab, ledger)
    for number in builder.alerts:
        put(folder, builder.alert(number))
    for kind in JOB_KINDS:
        for one in ledger.jobs.of_kind(kind):
            put(folder, builder.job(one.id))
    view = overview(
        builder,
        sorted(_series(builder, folder), key=lambda one: one.name),
        [progress_of(ledger, lab, one) for one in ledger.jobs.all_open()],
        max([builder.now, *(one.latest for one in ledger.samples.counts().values())]),
        pairs=[
            (pair_page(*pair), after.label, before.label)
            for pair, (before, after) in zip(pairs, ends, strict=True)
        ],
    )
    for name, text in IndexPages(builder, view).files(pairs):
        put(folder, {name: text})
    return tuple(pairs)


def _series(builder: PageBuilder, folder: Path) -> Iterator[SeriesDocument]:
    """Writes the pages of all series; yields their latest levels."""
    scenarios: dict[str, list[str]] = {}
    for testbed, scenario in builder.ledger.samples.counts():
        scenarios.setdefault(testbed, []).append(scenario)
    for testbed, of_testbed in scenarios.items():
        for histories in builder.ledger.series.histories_of(testbed, of_testbed):
            for one in histories:
                document = builder.document(one)
                put(folder, builder.series(document))
                yield document.latest_only(LISTED)
