"""One run of the site: which pages are out of date, who makes them, and those that tell of all."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from netbisect.bisect.model import Bisection, Comparison
from netbisect.reports import badge, words
from netbisect.reports.case import Links
from netbisect.reports.site import pages, revisions
from netbisect.reports.site.frame import FEED
from netbisect.reports.site.nouns import (
    Overview,
    Summary,
    badge_file,
    pair_page,
    revisions_page,
    testbed_page,
)
from netbisect.reports.site.pages import Ended
from netbisect.steps import badges
from netbisect.steps import site_material as material
from netbisect.steps.site_build import COMPACT, KINDS, Desk, Done, Source, Task
from netbisect.steps.site_files import Folder, Manifest, put
from netbisect.store.records import Asked
from netbisect.store.trails import Mark

_WORTH_IT = 12
"""Tasks from which on further processes are started."""
_CHUNK = 4
_SETTLED = 60 * 86400.0
"""Seconds after its end, from which on the picture of an alert does not change."""
_PAGE = ".html"
_FRONT = "front"
"""The pages that tell of many, as a task."""

_desk: list[Desk] = []
"""Of this process, where it is one that makes pages for another."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did."""

    pages: int
    drawn: int
    """Of them, those whose inputs had changed."""
    written: int
    removed: int
    largest: int
    """Bytes of the largest page."""


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What the ledger has, in little: enough to tell what is out of date."""

    marks: Mapping[tuple[str, str], Mark]
    questions: Mapping[str, Sequence[Asked]]
    """By kind, oldest first."""
    progress: Mapping[int, tuple[int, int]]


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
    desk = Desk(source, folder.staging)
    ledger = desk.ledger
    outlook = _Outlook(
        ledger.marks(), {kind: ledger.questions(kind) for kind in KINDS}, ledger.progress()
    )
    before = folder.manifest
    if full or before.made_by != source.digest():
        before = Manifest(pages=before.pages, pairs=before.pairs)
    pairs = list(before.pairs)
    if pair is not None:
        ends = material.resolve(ledger, pair[0]), material.resolve(ledger, pair[1])
        named = ends[0].revision, ends[1].revision
        pairs = [*(one for one in pairs if tuple(one) != named), named]
    marks = dict(_marks(desk, outlook))
    keys = {task.key: mark for task, mark in marks.items()}
    late = [
        task
        for task, mark in marks.items()
        if before.marks.get(task.key) != mark or not folder.whole(task.key)
    ]
    done = {one.key: one for one in _all_done(late, desk, source, folder.staging)}
    manifest = Manifest(source.digest(), keys, pairs=pairs)
    for key in keys:
        one = done.get(key)
        manifest.pages[key] = one.pages if one else before.pages[key]
        manifest.series[key] = one.series if one else before.series.get(key, [])
    manifest.pages[_FRONT] = _front(desk, outlook, manifest, folder.staging)
    written, removed = folder.replace(manifest)
    files = [folder.place / name for name in manifest.digests() if name.endswith(_PAGE)]
    return Report(
        pages=len(files),
        drawn=sum(name.endswith(_PAGE) for one in done.values() for name in one.pages),
        written=written,
        removed=removed,
        largest=max(file.stat().st_size for file in files),
    )


def _marks(desk: Desk, outlook: _Outlook) -> Iterator[tuple[Task, str]]:
    """Every task, and the state of what it is made from."""
    for (testbed, scenario), mark in outlook.marks.items():
        alerts = [
            (one.number, one.state.value, one.bad, one.culprit)
            for one in desk.touching(testbed, scenario)
        ]
        yield Task("series", testbed, scenario), f"{mark.samples} {mark.latest!r} {alerts}"
    states = {
        one.id: (one.state.value, outlook.progress.get(one.id, (0, 0)))
        for asked in outlook.questions.values()
        for one in asked
    }
    for number, alert in desk.alerts.items():
        line = desk.lines[number]
        asked = [states.get(one) for one in (alert.comparison, alert.bisection) if one is not None]
        # What is long over stays as it was: its picture has no newer levels.
        lead = outlook.marks.get((alert.testbed, alert.lead))
        if lead and alert.closed_at is not None and alert.closed_at < lead.latest - _SETTLED:
            lead = None
        yield Task("alert", number=number), f"{line.state.value} {line.changed!r} {asked} {lead}"
    for kind, asked_of_kind in outlook.questions.items():
        for one in asked_of_kind:
            about = desk.about(one.id)
            alert_mark = (about.number, about.state.value) if about else None
            yield Task(kind, number=one.id), f"{states[one.id]} {alert_mark}"


# ------------------------------------------------------------------------------- who makes them


def _all_done(tasks: Sequence[Task], desk: Desk, source: Source, staging: Path) -> list[Done]:
    """Makes pages, in as many processes as there are processors where that is worth it."""
    workers = min(os.cpu_count() or 1, len(tasks) // _WORTH_IT + 1)
    # A fork is quick, and safe where no other thread can hold a lock.
    if workers == 1 or threading.active_count() > 1:
        return [desk.do(task) for task in tasks]
    desk.ledger.engine.dispose()
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("fork"), _begin, (source, staging)
    ) as pool:
        return list(pool.map(_do, tasks, chunksize=_CHUNK))


def _begin(source: Source, staging: Path) -> None:
    _desk[:] = [Desk(source, staging)]


def _do(task: Task) -> Done:
    return _desk[0].do(task)


# ------------------------------------------------------------------------ pages that tell of all


def _front(desk: Desk, outlook: _Outlook, manifest: Manifest, staging: Path) -> dict[str, str]:
    """Writes the pages that tell of many series; returns their digests."""
    series = [COMPACT.structure(one, Summary) for told in manifest.series.values() for one in told]
    series.sort(key=lambda one: one.name)
    by_name = {one.name: one for one in series}
    found: dict[str, str] = {}

    def write(name: str, text: str) -> None:
        found[name] = put(staging, name, text)

    links = Links(commit=desk.lab.commit_link)
    listed = []
    for before, after in manifest.pairs:
        ends = material.resolve(desk.ledger, before), material.resolve(desk.ledger, after)
        name = pair_page(before, after)
        both = material.both(desk.ledger, (before, after), by_name)
        write(name, revisions.pair(*ends, both, links))
        listed.append((name, ends[1].label, ends[0].label))
    view = _overview(desk, outlook, by_name, listed)
    write("alerts.html", pages.alerts(view))
    write("searches.html", pages.searches(view.running, list(_ended(desk, outlook))))
    write("testbeds.html", pages.testbeds(view))
    write("compare.html", pages.compare(view))
    for testbed, group in groupby(series, lambda one: one.testbed):
        mine = list(group)
        alerts = [one for one in view.alerts if one.testbed == testbed]
        write(testbed_page(testbed), pages.testbed(mine, alerts))
        for branch in {one.branch for one in mine}:
            of_branch = [one for one in mine if one.branch == branch]
            write(revisions_page(testbed, branch), revisions.page(of_branch))
    write(FEED, desk.documents.atom())
    for place, condition in badges.conditions(desk.ledger).items():
        write(badge_file(*place), badge.badge(badges.title(place), condition))
    write("index.html", pages.index(view))
    return found


def _overview(
    desk: Desk,
    outlook: _Outlook,
    series: Mapping[tuple[str, str, str], Summary],
    pairs: Sequence[tuple[str, str, str]],
) -> Overview:
    nights = desk.ledger.last_nights(material.NIGHT_SECONDS)
    running = [
        material.running(desk.ledger, one, kind, outlook.progress.get(one.id, (0, 0))[0])
        for kind, asked in outlook.questions.items()
        for one in asked
        if one.finding is None
    ]
    times = [mark.latest for mark in outlook.marks.values()]
    times += [line.changed for line in desk.lines.values()]
    times += [one.closed_at or one.opened_at for one in nights]
    return Overview(
        at=max(times, default=0.0),
        nights=material.night_views(nights, series),
        night_at=max((one.opened_at for one in nights), default=None),
        alerts=list(reversed(desk.lines.values())),
        running=running,
        series=list(series.values()),
        pairs=pairs,
    )


def _ended(desk: Desk, outlook: _Outlook) -> Iterator[Ended]:
    """The newest first."""
    asked = [
        (one.id, kind, one)
        for kind, of_kind in outlook.questions.items()
        for one in of_kind
        if one.finding is not None
    ]
    for number, kind, one in sorted(asked, key=lambda item: -item[0]):
        assert isinstance(one.question, Comparison | Bisection)
        assert one.finding is not None
        yield Ended(
            kind=kind,
            number=number,
            testbed=one.question.testbed,
            branch=one.question.branch,
            since=one.opened_at,
            answer=words.sentence(one.finding, desk.ledger.label, desk.lab.title),
        )
