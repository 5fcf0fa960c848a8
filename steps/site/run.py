"""Writes a whole site, with several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.site.files import JOB_KINDS, pair_page
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import progress_of
from netbisect.steps.service import compute
from netbisect.steps.site import revision_names
from netbisect.steps.site.build import AlertIndex, PageBuilder, PagesOfTestbed
from netbisect.steps.site.folder import Pair, SiteError, put
from netbisect.steps.site.index_pages import IndexPages, overview
from netbisect.store.ledger import Ledger, open_ledger

_WORTH_IT = 24
"""Least number of series for several processes: each needs two seconds for its imports."""

_child: list[tuple[PageBuilder, Path]] = []
"""In a child process: its builder, and the folder of the site."""


def write(
    database: str,
    lab: LabContext,
    folder: Path,
    pairs: Sequence[Pair],
    pair: Pair | None = None,
    processes: int | None = None,
) -> tuple[Pair, ...]:
    """Writes all pages of a site.

    Args:
        database: Address of the database, which is migrated first.
        lab: Its lab.
        folder: Empty folder.
        pairs: Revisions to compare, each pair on a page if both were measured.
        pair: One more pair, by names of users.
        processes: Maximum number of processes; None to choose by the number of series.

    Returns:
        The pairs on pages.

    Raises:
        SiteRevisionError: A revision of the pair was not measured.
        SiteError: A process was killed.
        StoreError: The database cannot be used.
    """
    ledger = open_ledger(database)
    measured = set(ledger.commits.booted())
    pairs = [one for one in pairs if measured.issuperset(one)]  # a restored database may lack some
    if pair is not None:
        before, after = (revision_names.resolve(ledger, name).revision for name in pair)
        pairs = [*(one for one in pairs if one != (before, after)), (before, after)]
    ends = [
        (revision_names.resolve(ledger, a), revision_names.resolve(ledger, b)) for a, b in pairs
    ]
    alerts = AlertIndex.of(ledger)
    counted = ledger.samples.counts()
    builder = PageBuilder(lab, ledger, alerts)
    if processes is None:
        processes = os.cpu_count() or 1 if len(counted) >= _WORTH_IT else 1
    series = _made(_parts(ledger, counted, alerts), builder, folder, processes, database)
    running = [progress_of(ledger, builder.lab, one) for one in ledger.jobs.all_open()]
    view = overview(
        builder,
        series,
        running,
        max([alerts.now, *(one.latest for one in counted.values())]),
        pairs=[
            (pair_page(*pair), after.label, before.label)
            for pair, (before, after) in zip(pairs, ends, strict=True)
        ],
    )
    put(folder, IndexPages(builder, view).files(pairs))
    return tuple(pairs)


def _parts(
    ledger: Ledger, counted: Collection[tuple[str, str]], alerts: AlertIndex
) -> list[PagesOfTestbed]:
    """The pages of testbeds, by testbed."""
    numbers = [(alert.testbed, number) for number, alert in alerts.by_number.items()]
    jobs = [(one.testbed, one.id) for kind in JOB_KINDS for one in ledger.jobs.of_kind(kind)]
    return [
        PagesOfTestbed(
            testbed,
            scenarios=tuple(scenario for on, scenario in counted if on == testbed),
            alerts=tuple(number for on, number in numbers if on == testbed),
            jobs=tuple(number for on, number in jobs if on == testbed),
        )
        for testbed in sorted({on for on, _ in (*counted, *numbers, *jobs)})
    ]


def _made(
    parts: Sequence[PagesOfTestbed],
    builder: PageBuilder,
    folder: Path,
    processes: int,
    database: str,
) -> list[SeriesDocument]:
    """Makes the pages of testbeds; returns all series."""
    workers = min(processes, len(parts))
    if workers <= 1:
        return _joined(builder.make(one, folder) for one in parts)
    # Spawned: a fork beside the threads of NumPy can deadlock.
    spawn = multiprocessing.get_context("spawn")
    shared = database, builder.lab, folder, builder.alerts
    with ProcessPoolExecutor(workers, spawn, _begin, shared) as pool:
        try:
            return _joined(pool.map(_make, parts))
        except BrokenProcessPool:
            raise SiteError(
                "a process that made pages was killed; the host may be out of memory"
            ) from None


def _joined(found: Iterable[Sequence[SeriesDocument]]) -> list[SeriesDocument]:
    return sorted((one for series in found for one in series), key=lambda one: one.name)


def _begin(database: str, lab: LabContext, folder: Path, alerts: AlertIndex) -> None:
    """In a child process."""
    compute.prepare_child()
    _child[:] = [(PageBuilder(lab, open_ledger(database), alerts), folder)]


def _make(part: PagesOfTestbed) -> list[SeriesDocument]:
    builder, folder = _child[0]
    return builder.make(part, folder)
