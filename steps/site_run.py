"""One run of the site: which pages are out of date, and who makes them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, replace
from itertools import groupby, islice

from netbisect.bisect.model import Bisection, Comparison
from netbisect.steps import site_material as material
from netbisect.steps.site_build import KINDS, Desk, Done, Task
from netbisect.steps.site_files import PAGE, Folder, Manifest, Report, mark_of
from netbisect.steps.site_front import Front, Outlook
from netbisect.steps.site_kept import Kept
from netbisect.steps.site_source import Source
from netbisect.steps.site_touched import Extent, News, news_of
from netbisect.store.samples import Newest

_WORTH_IT = 12
"""Tasks from which on further processes are started."""
_PART = 13
"""Tasks that a process gets at a time: of series, all of one testbed; small enough that no other
process has long to wait for the last one."""
_YOUNG = 200_000
"""Objects after which the garbage collector looks for circles: pages leave few of them."""

_desk: list[Desk] = []
"""Of this process, where it is one that makes pages for another."""


def run(folder: Folder, source: Source, pair: tuple[str, str] | None, *, full: bool) -> Report:
    """Brings a site up to date.

    Args:
        folder: Of the site.
        source: Where it comes from.
        pair: Two revisions that are to be compared on a page of their own.
        full: Make all pages anew.

    Raises:
        RevisionError: one of the pair is no revision that was measured.
    """
    with _calm():
        desk = Desk(source, folder.staging)
        manifest = Manifest(made_by=source.digest(), mark=desk.mark, tree=source.tree())
        before = folder.manifest
        if full or before.made_by != manifest.made_by:
            before = Manifest(pages=before.pages, pairs=before.pairs)
            shutil.rmtree(folder.kept, ignore_errors=True)
        folder.kept.mkdir(exist_ok=True)
        desk.ledger.memory = Kept(folder.kept, manifest.made_by, desk.mark, desk.ledger)
        manifest.pairs = list(before.pairs)
        if pair is not None:
            ends = [material.resolve(desk.ledger, name).revision for name in pair]
            named = ends[0], ends[1]
            manifest.pairs = [*(one for one in manifest.pairs if one != named), named]
        ledger = desk.ledger
        outlook = Outlook(
            ledger.marks(), {kind: ledger.questions(kind) for kind in KINDS}, ledger.progress()
        )
        series = dict(_series_marks(desk, outlook))
        work = [
            (task, mark)
            for task, mark in series.items()
            if before.marks.get(task.key) != mark or not folder.whole(task.key)
        ]
        manifest.conditions = _conditions(ledger.newest_samples())
        cases = _cases(desk, outlook)
        news = _news(desk, outlook, before, manifest)
        work += [
            (task, before.marks.get(task.key, "") if folder.whole(task.key) else "")
            for task in cases
            if not folder.whole(task.key)
            or task.key not in before.extents
            or news.touches(Extent(*before.extents[task.key]))
        ]
        # Cases first: what takes longest must not be begun last.
        work.sort(key=lambda one: one[0].kind == "series")
        done = {one.key: one for one in _all_done(work, desk)}
        for task in [*series, *cases]:
            _keep(task.key, done.get(task.key), before, manifest)
        Front(desk, outlook, manifest, folder).write(before)
        written, removed = folder.replace(manifest)
    drawn = [name for one in done.values() for name in one.pages or () if name.endswith(PAGE)]
    return replace(folder.report(), drawn=len(drawn), written=written, removed=removed)


def _conditions(newest: Mapping[tuple[str, str, str], Newest]) -> dict[str, str]:
    """By testbed: digest of the conditions of the newest samples of its series."""
    found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for (testbed, scenario, branch), one in sorted(newest.items()):
        found[testbed].append((scenario, branch, one.conditions))
    return {testbed: mark_of(told) for testbed, told in found.items()}


def _news(desk: Desk, outlook: Outlook, before: Manifest, now: Manifest) -> News:
    """What has happened that cases may tell of."""
    testbeds = {
        one.id: set(getattr(one.question, "testbeds", (one.question.testbed,)))
        for asked in (*outlook.questions.values(), desk.ledger.questions("profiling"))
        for one in asked
    }
    for alert in desk.alerts.values():
        for question in (alert.comparison, alert.bisection):
            if question in testbeds:
                # A search of one testbed can be that of another one's alert.
                testbeds[question].add(alert.testbed)
    events = desk.ledger.events_after(before.mark) if before.mark else None
    found = news_of(desk.ledger, events, testbeds)
    other = {
        name for name, digest in now.conditions.items() if before.conditions.get(name) != digest
    }
    return replace(found, testbeds=found.testbeds | other, now=desk.now)


def _keep(key: str, done: Done | None, before: Manifest, manifest: Manifest) -> None:
    """Notes what came of a task, or that all is as it was."""
    manifest.marks[key] = done.mark if done else before.marks[key]
    if done is None or done.pages is None:
        manifest.pages[key] = before.pages[key]
        manifest.series[key] = before.series[key]
    else:
        manifest.pages[key] = done.pages
        manifest.series[key] = list(done.series)
    if done is not None and done.extent is not None:
        manifest.extents[key] = astuple(done.extent)
    elif key in before.extents:
        manifest.extents[key] = before.extents[key]


@contextmanager
def _calm() -> Iterator[None]:
    """Has garbage looked for less often: many things are made here, and few of them for long."""
    known = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG, *known[1:])
    try:
        yield
    finally:
        gc.set_threshold(*known)
        gc.unfreeze()


def _series_marks(desk: Desk, outlook: Outlook) -> Iterator[tuple[Task, str]]:
    """The tasks of series, and the state of what each is made from."""
    for (testbed, scenario), mark in outlook.marks.items():
        told = mark_of(desk.touching(testbed, scenario))
        yield (
            Task("series", testbed, scenario),
            f"{mark.samples} {mark.latest!r} {mark.background} {told}",
        )


def _cases(desk: Desk, outlook: Outlook) -> list[Task]:
    """The tasks of alerts and questions: those about one series beside each other."""
    found = [
        ((alert.testbed, alert.lead), Task("alert", number=number))
        for number, alert in desk.alerts.items()
    ]
    for kind, asked_of_kind in outlook.questions.items():
        for one in asked_of_kind:
            assert isinstance(one.question, Comparison | Bisection)
            place = one.question.testbed, one.question.lead
            found.append((place, Task(kind, number=one.id)))
    return [task for _, task in sorted(found, key=lambda item: item[0])]


# ------------------------------------------------------------------------------- who makes them


def _all_done(tasks: Sequence[tuple[Task, str]], desk: Desk) -> list[Done]:
    """Makes pages, in as many processes as there are processors where that is worth it."""
    parts = [
        part
        for _, group in groupby(tasks, lambda one: (one[0].kind == "series", one[0].testbed))
        for part in _batched(group)
    ]
    workers = min(os.cpu_count() or 1, len(tasks) // _WORTH_IT + 1)
    # A fork is quick, and safe where no other thread can hold a lock.
    if workers == 1 or threading.active_count() > 1:
        return [one for part in parts for one in desk.do(part)]
    desk.ledger.engine.dispose()
    _desk[:] = [desk]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        return [one for part in pool.map(_do, parts) for one in part]


def _batched(tasks: Iterable[tuple[Task, str]]) -> Iterator[list[tuple[Task, str]]]:
    """Parts of at most so many tasks as a process gets at a time."""
    waiting = iter(tasks)
    while part := list(islice(waiting, _PART)):
        yield part


def _do(tasks: Sequence[tuple[Task, str]]) -> list[Done]:
    return _desk[0].do(tasks)
