"""The result of a local search as text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from netbisect.bisect.model.entities import Failure, Kernel, Reaction
from netbisect.bisect.model.results import (
    Culprit,
    Drift,
    Effect,
    NotConfirmed,
    NotReproduced,
    Posterior,
    Suspects,
)
from netbisect.localbisect import search
from netbisect.localbisect.result import (
    SearchResult,
    headline,
    label,
    mark_sentences,
    user_effect,
)
from netbisect.localbisect.search import Entry
from netbisect.reports.render import text_plot, words
from netbisect.reports.render.ministat import ASSUMES_NORMAL, POINTS_MIN, UNPROVEN, ministat
from netbisect.reports.render.plaintext import table, wrap

_LISTED = 20
"""Maximum number of commits in the list of the most likely ones."""
_LEAST_LISTED = 0.001
"""Minimum probability of such a commit."""


def as_text(result: SearchResult) -> str:
    """The report of a result."""
    blocks = [wrap(headline(result))]
    for culprit in result.culprits:
        blocks.append(_commit(result, culprit))
        blocks += _ministat(result, culprit.parent, culprit.revision, culprit.effects)
    posterior = getattr(result.finding, "posterior", None)  # None after a mere comparison
    if posterior and posterior.chances and not result.culprits:
        blocks.append(_posterior(result, posterior))
    if isinstance(result.finding, NotConfirmed):
        ends = result.spec.good, result.spec.line[-1].revision
        blocks += _ministat(result, *ends, result.finding.effects)
    if overlaid := overlay_sentences(result.entries):
        blocks.append(wrap(" ".join(overlaid)))
    if marks := mark_sentences(result.entries):
        blocks.append("\n".join(map(wrap, marks)))
    if rows := _measurements(result):
        blocks.append(f"Measurements, in commit order:\n\n{table(rows)}")
    if reasons := _skipped(result.entries):
        blocks.append(f"Skipped:\n\n{reasons}")
    blocks.append(f"{wrap(_cost(result))}\nLog: {result.log}")  # a path is not wrapped
    return "\n\n".join(blocks)


def _commit(result: SearchResult, finding: Culprit) -> str:
    commit = result.commits.get(finding.revision)
    rows = [("commit", finding.revision)]
    if commit is not None:
        rows += [
            ("subject", words.clean(commit.subject)),
            ("author", words.clean(f"{commit.author} <{commit.email}>")),
            ("date", words.moment(commit.at)),
        ]
    lead = user_effect(finding.effects[0], result.spec)
    rows += [
        ("parent", label(result.spec, finding.parent)),
        ("effect", f"{words.change(lead)}, {result.sides(lead)}"),
        ("chance", f"{words.probability_by_chance(lead.p)} if both were equal"),
        ("certainty", words.certainty(finding.chance)),
    ]
    return table(rows)


def _posterior(result: SearchResult, posterior: Posterior) -> str:
    picture = "\n".join(text_plot.posterior(posterior, lambda revision: revision[:12]))
    found = result.finding
    if isinstance(found, NotReproduced | Drift):
        return picture
    likely = [one for one in posterior.credible() if posterior.chances[one] >= _LEAST_LISTED]
    possible = found.revisions if isinstance(found, Suspects) else likely
    if not possible:
        return picture
    ranked = sorted(possible, key=lambda one: -posterior.chances[one])[:_LISTED]
    chances = {one: posterior.chances[one] for one in ranked}
    rows = [(words.certainty(chance), label(result.spec, one)) for one, chance in chances.items()]
    together = words.certainty(math.fsum(chances.values()))
    return f"{picture}\n\nMost likely commits, {together} together:\n\n{table(rows)}"


def _ministat(result: SearchResult, good: str, bad: str, effects: Sequence[Effect]) -> list[str]:
    """Both sides as by ministat, or nothing if there are too few runs."""
    if not effects or result.spec.duts > 1:  # the levels of devices differ
        return []
    numbers = _trial_means(result.entries)
    sides = [
        (good[:12], numbers.get(good, [])[-effects[0].good_boots :]),
        (bad[:12], numbers.get(bad, [])[-effects[0].bad_boots :]),
    ]
    if min(len(side) for _, side in sides) < POINTS_MIN:
        return []
    text = ministat(sides).rstrip("\n")
    return [text, wrap(ASSUMES_NORMAL)] if result.culprits and UNPROVEN in text else [text]


def values_by_revision(entries: Sequence[Entry], dut: str | None = None) -> dict[str, list[float]]:
    """The measured numbers by revision, of one device or of all."""
    found: dict[str, list[float]] = {}
    for boot, numbers in search.measured_boots(entries):
        if dut in (None, boot.testbed):
            found.setdefault(boot.revision, []).extend(numbers)
    return found


def _trial_means(entries: Sequence[Entry]) -> dict[str, list[float]]:
    """The means of trials by revision."""
    spec = search.spec_of(entries)
    found: dict[str, list[float]] = {}
    for reading in search.evidence(spec, entries).observations:
        (level,) = reading.ln_pps.values()
        value = math.exp(spec.sign * level)
        found.setdefault(reading.revision, []).append(value)
    return found


def overlaid_revisions(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """The revisions that each patch was applied to, by its name."""
    spec = search.spec_of(entries)
    kernels = (entry for entry in entries if isinstance(entry, Kernel))
    with_it = {kernel.revision: kernel.config.split("\n") for kernel in kernels}
    return {
        overlay.name: [one for one in spec.subjects if overlay.name in with_it.get(one, ())]
        for overlay in spec.overlays
    }


def overlay_sentences(entries: Sequence[Entry]) -> list[str]:
    """One sentence about the use of each patch."""
    measured = len({entry.revision for entry in entries if isinstance(entry, Kernel)})
    if not measured:
        return []
    whole = f"of the {words.count(measured, 'revision')} measured"
    found = []
    for name, revisions in overlaid_revisions(entries).items():
        where = words.listing([revision[:12] for revision in revisions])
        where = f"{len(revisions)} {whole}: {where}" if revisions else f"none {whole}"
        found.append(f"{name} was applied to {where}.")
    return found


def skipped_revisions(entries: Sequence[Entry]) -> dict[str, str]:
    """Reasons of skipped revisions, by revision."""
    return {
        entry.revision: entry.why
        for entry in entries
        if isinstance(entry, Failure) and entry.reaction is Reaction.SKIP and not entry.layout
    }


def layout_counts(entries: Sequence[Entry]) -> dict[str, int]:
    """The number of measured layouts, by revision."""
    spec = search.spec_of(entries)
    seen = {(r.revision, r.layout) for r in search.evidence(spec, entries).observations}
    return dict(Counter(revision for revision, _ in seen))


def _measurements(result: SearchResult) -> list[tuple[str, str, str, str]]:
    spec = result.spec
    every = {name: values_by_revision(result.entries, name) for name in spec.names}
    skipped, layouts = skipped_revisions(result.entries), layout_counts(result.entries)
    rows = []
    for revision in spec.subjects:
        found = [name for name in spec.names if revision in every[name]]
        for name in found:
            numbers, good = every[name][revision], every[name].get(spec.good)
            level = median(numbers)
            against = ""
            if good and revision != spec.good:
                against = words.percent(math.log(level / median(good)))
            count = words.count(len(numbers), "run") + (f" on DUT {name}" if name else "")
            count += f" in {layouts[revision]} layouts" if layouts.get(revision, 1) > 1 else ""
            rows.append((label(spec, revision), count, words.plain(level), against))
        if not found and revision in skipped:
            rows.append((label(spec, revision), "skipped", "", ""))
    return rows


def _skipped(entries: Sequence[Entry]) -> str:
    """The reasons of skipped revisions; a column of the table would be too narrow for them."""
    reasons = Counter(map(words.clean, skipped_revisions(entries).values()))
    each = (f"{words.count(count, 'revision')}: {why}" for why, count in reasons.most_common())
    return "\n".join(wrap(one, indent=2) for one in each)


def _cost(result: SearchResult) -> str:
    cost = total_cost(result.entries)
    builds = f", {words.count(cost['setups'], 'set-up')}" if result.spec.setup else ""
    duts = f" on {result.spec.duts} DUTs together" if result.spec.duts > 1 else ""
    return (
        f"{words.count(cost['runs'], 'run')} of {words.count(cost['revisions'], 'revision')}"
        f"{builds}, {words.elapsed(cost['seconds'])}{duts}."
    )


def total_cost(entries: Sequence[Entry]) -> dict[str, Any]:
    """The cost of a search."""
    return {
        "runs": search.runs_done(entries),
        "revisions": len(values_by_revision(entries)),
        "setups": sum(isinstance(entry, Kernel) for entry in entries),
        "seconds": search.seconds_spent(entries),
    }
