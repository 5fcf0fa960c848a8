"""Tells people how a search by hand has ended."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from netbisect.bisect.model import (
    Belief,
    Boot,
    Culprit,
    Drift,
    Dud,
    Effect,
    Kernel,
    NotConfirmed,
    NotReproduced,
    Reaction,
    Sample,
)
from netbisect.reports import words
from netbisect.reports.ministat import POINTS_MIN, ministat
from netbisect.reports.plaintext import table, wrap
from netbisect.steps.hand import search
from netbisect.steps.hand.search import Entry, Search
from netbisect.steps.hand.verdict import Result, belief_of, drawn, headline, label, users


def text(result: Result) -> str:
    """The report, several lines."""
    blocks = [wrap(headline(result))]
    for culprit in result.culprits:
        blocks.append(_commit(result, culprit))
        blocks += _ministat(result, culprit.parent, culprit.revision, culprit.effects)
    if not result.culprits and (belief := belief_of(result.finding)):
        blocks.append(_left(result, belief))
    if isinstance(result.finding, NotConfirmed):
        ends = result.search.good, result.search.line[-1].revision
        blocks += _ministat(result, *ends, result.finding.effects)
    if overlaid := overlay_sentences(result.entries):
        blocks.append(wrap(" ".join(overlaid)))
    if path := _path(result):
        blocks.append(f"What was measured, in the order of the commits:\n\n{path}")
    blocks.append(f"{wrap(_cost(result))}\nLog: {result.log}")  # a path is not cut
    return "\n\n".join(blocks)


def _commit(result: Result, finding: Culprit) -> str:
    commit = result.commits.get(finding.revision)
    rows = [("commit", finding.revision)]
    if commit is not None:
        rows += [
            ("subject", words.clean(commit.subject)),
            ("author", words.clean(f"{commit.author} <{commit.email}>")),
            ("date", words.moment(commit.at)),
        ]
    lead = users(finding.effects[0], result.search)
    rows += [
        ("parent", label(result.search, finding.parent)),
        ("effect", f"{words.change(lead)}, {result.sides(lead)}"),
        ("chance", f"{words.odds(lead.p)} if both were equal"),
        ("certainty", words.certainty(finding.chance)),
    ]
    return table(rows)


def _left(result: Result, belief: Belief) -> str:
    picture = "\n".join(drawn(belief))
    if isinstance(result.finding, NotReproduced | Drift):
        return picture
    rows = [
        (words.certainty(belief.chances[one]), label(result.search, one))
        for one in belief.credible(0.9)[:20]
    ]
    listing = f"\n\nThe likeliest, 90 % together:\n\n{table(rows)}" if rows else ""
    return picture + listing


def _ministat(result: Result, good: str, bad: str, effects: Sequence[Effect]) -> list[str]:
    """Two sides as ministat shows them, unless there are too few runs: no block, or one."""
    if not effects:
        return []
    if result.search.duts > 1:  # their levels differ, which would be taken for scatter
        return []
    numbers = visits_of(result.entries)
    sides = [
        (good[:12], numbers.get(good, [])[-effects[0].good_boots :]),
        (bad[:12], numbers.get(bad, [])[-effects[0].bad_boots :]),
    ]
    if min(len(side) for _, side in sides) < POINTS_MIN:
        return []
    return [ministat(sides).rstrip("\n")]


def numbers_of(entries: Sequence[Entry], dut: str | None = None) -> dict[str, list[float]]:
    """What the command printed, by revision; on one device, or on all of them."""
    boots = {
        entry.id: entry.revision
        for entry in entries
        if isinstance(entry, Boot) and dut in (None, entry.testbed)
    }
    found: dict[str, list[float]] = {}
    for entry in entries:
        if isinstance(entry, Sample) and entry.boot in boots:
            found.setdefault(boots[entry.boot], []).append(entry.pps)
    return found


def visits_of(entries: Sequence[Entry]) -> dict[str, list[float]]:
    """The mean of each visit's runs, by revision: what is weighed."""
    asked = entries[0]
    assert isinstance(asked, Search)
    found: dict[str, list[float]] = {}
    for reading in search.evidence(asked, entries).readings:
        value = math.exp(asked.sign * reading.ln_pps[search.METRIC])
        found.setdefault(reading.revision, []).append(value)
    return found


def overlaid_of(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Which revisions each patch was applied to, oldest first, by its name."""
    asked = entries[0]
    assert isinstance(asked, Search)
    with_it = {entry.revision: entry.config for entry in entries if isinstance(entry, Kernel)}
    return {
        overlay.name: [
            revision
            for revision in asked.subjects
            if overlay.name in with_it.get(revision, "").split("\n")
        ]
        for overlay in asked.overlays
    }


def overlay_sentences(entries: Sequence[Entry]) -> list[str]:
    """Where each patch was applied; a sentence for each."""
    measured = len({entry.revision for entry in entries if isinstance(entry, Kernel)})
    if not measured:
        return []
    whole = words.count(measured, "revision")
    found = []
    for name, revisions in overlaid_of(entries).items():
        where = words.listing([revision[:12] for revision in revisions])
        number = f"{len(revisions)} of the {whole} that were measured: {where}"
        none = f"none of the {whole} that were measured"
        found.append(f"{name} was applied to {number if revisions else none}.")
    return found


def skipped_of(entries: Sequence[Entry]) -> dict[str, str]:
    """Why a revision was skipped, by revision."""
    return {
        entry.revision: entry.why
        for entry in entries
        if isinstance(entry, Dud) and entry.reaction is Reaction.SKIP and not entry.layout
    }


def layouts_of(entries: Sequence[Entry]) -> dict[str, int]:
    """In how many layouts a revision was measured, by revision."""
    asked = entries[0]
    assert isinstance(asked, Search)
    seen = {(r.revision, r.layout) for r in search.evidence(asked, entries).readings}
    return dict(Counter(revision for revision, _ in seen))


def _mean(numbers: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


def _path(result: Result) -> str:
    asked = result.search
    every = {name: numbers_of(result.entries, name) for name in asked.names}
    skipped, layouts = skipped_of(result.entries), layouts_of(result.entries)
    rows = []
    for revision in asked.subjects:
        found = [name for name in asked.names if revision in every[name]]
        for name in found:
            numbers, good = every[name][revision], every[name].get(asked.good)
            mean = _mean(numbers)
            against = words.percent(math.log(mean / _mean(good))) if good else ""
            against = "" if revision == asked.good else against
            count = words.count(len(numbers), "run") + (f" on DUT {name}" if name else "")
            count += f" in {layouts[revision]} layouts" if layouts.get(revision, 1) > 1 else ""
            rows.append((label(asked, revision), count, f"{mean:.6g}", against))
        if not found and revision in skipped:
            rows.append((label(asked, revision), "skipped", words.clean(skipped[revision]), ""))
    return table(rows) if rows else ""


def _cost(result: Result) -> str:
    cost = cost_of(result.entries)
    builds = f", {words.count(cost['setups'], 'set-up')}" if result.search.setup else ""
    duts = f" on {result.search.duts} DUTs together" if result.search.duts > 1 else ""
    return (
        f"{words.count(cost['runs'], 'run')} of {words.count(cost['revisions'], 'revision')}"
        f"{builds}, {words.duration(cost['seconds'])}{duts}."
    )


def cost_of(entries: Sequence[Entry]) -> dict[str, Any]:
    """What a search has taken."""
    return {
        "runs": sum(isinstance(entry, Sample) for entry in entries),
        "revisions": len(numbers_of(entries)),
        "setups": sum(isinstance(entry, Kernel) for entry in entries),
        "seconds": search.spent(entries),
    }
