"""`netbisect bisect explain`: posterior, next trial and remaining work of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netbisect.bisect import plan
from netbisect.bisect.detection import retest
from netbisect.bisect.model import serialization
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.in_flight import Wait
from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.results import (
    Culprit,
    Move,
    Posterior,
    Result,
    SeveralCulprits,
    Trial,
    Unfinished,
)
from netbisect.bisect.search.posterior import posterior_of
from netbisect.localbisect import search
from netbisect.localbisect.json_report import posterior_data
from netbisect.localbisect.result import (
    SearchResult,
    headline,
    in_user_terms,
    label,
    mark_sentences,
    user_effect,
)
from netbisect.localbisect.search import Entry, SearchSpec
from netbisect.localbisect.text_report import overlay_sentences
from netbisect.reports.model.types import short_hash
from netbisect.reports.render import text_plot, words
from netbisect.reports.render.plaintext import wrap

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class SearchStatus:
    """The state of a search.

    The outlook of the engine counts one build per new kernel. A local search has one worktree per
    device: interleaved measurements need a set-up for every second trial.
    """

    move: Move
    posterior: Posterior | None = None
    """None during the comparison of the ends, which has no forecast: the effect is unknown."""
    setups: float = 0.0
    runs: float = 0.0
    seconds: float = 0.0
    """Expected remaining time of all devices together."""


def _state(entries: Sequence[Entry]) -> tuple[SearchSpec, CompareJob | BisectJob, Evidence, Prices]:
    spec = search.spec_of(entries)
    job = search.last_job(entries)
    if isinstance(entries[-1], Result):  # killed between a result and the next job
        job = search.next_job(spec, entries[-1], entries) or job
    job = job or search.comparison_of_ends(spec)
    assert isinstance(job, CompareJob | BisectJob)
    return spec, job, search.evidence(spec, entries), search.prices(spec, entries)


def result_without_budget(entries: Sequence[Entry], why: str) -> Result:
    """The result of a search that cannot go on: its verified commit, if there is one."""
    spec, job, evidence, prices = _state(entries)
    if not isinstance(job, BisectJob):
        if found := retest.so_far(job, evidence, prices):
            ends = user_effect(found[0], spec)
            counts = SearchResult(entries, Unfinished(why), Path()).sides(ends)
            why += f". The difference of the ends so far: {words.change(ends)}, {counts}"
        return Unfinished(why)
    move = plan.next_move(replace(job, budget_seconds=0.0), evidence, prices)
    if isinstance(move, Culprit | SeveralCulprits):
        return move
    return Unfinished(why, posterior_of(job, evidence))


def search_status(entries: Sequence[Entry], trial: Trial | None = None) -> SearchStatus:
    """The state of a search, from its log, and its next trial with its posterior, if known."""
    if not search.spec_of(entries).line:
        return SearchStatus(search.EQUAL_ENDS)
    _, job, evidence, prices = _state(entries)
    if isinstance(job, CompareJob):
        move = plan.next_move(job, evidence, prices)
        assert not isinstance(move, Wait), "no trial to wait for"
        return SearchStatus(move)
    seen = plan.forecast(job, evidence, prices, trial)
    if not isinstance(seen.move, Trial):
        return SearchStatus(seen.move, seen.posterior)
    again = max(0.0, seen.boots_left - seen.builds_left) / 2
    return SearchStatus(
        seen.move,
        seen.posterior,
        seen.builds_left + again,
        max(1.0, seen.boots_left) * seen.move.runs,
        seen.hours_left * _HOUR + again * prices.build,
    )


def decision_line(entries: Sequence[Entry], trial: Trial) -> str:
    """A decision in a line: what is measured next, why, the best candidate, cost, and time left.

    The entries are those before the decision, which has its posterior.
    """
    dut = f" on DUT {trial.testbed}" if trial.testbed else ""
    seconds = search_status(entries, trial).seconds / search.spec_of(entries).duts
    done = search.runs_done(entries)
    difference = ""
    spec, job, evidence, prices = _state(entries)
    if isinstance(job, CompareJob) and (found := retest.so_far(job, evidence, prices)):
        effect, most = found
        limit = words.count(most * trial.runs, "run")
        difference = f"difference {words.change(user_effect(effect, spec))}, at most {limit}"
    parts = [
        f"Next {trial.revision[:12]}{dut}: {in_user_terms(trial.why)}",
        f"best {words.likeliest(trial.posterior, short_hash)}" if trial.posterior else difference,
        f"{words.count(done, 'run')}, {words.elapsed(search.seconds_spent(entries))} so far",
        f"about {words.elapsed(seconds)} left" if seconds else "",
    ]
    return "; ".join(filter(None, parts))


def as_text(entries: Sequence[Entry]) -> str:
    """The state of a search as text."""
    spec, seen = search.spec_of(entries), search_status(entries)
    lines = []
    if seen.posterior:
        lines = text_plot.posterior(seen.posterior, lambda revision: revision[:12])
    lines += map(wrap, [*overlay_sentences(entries), *mark_sentences(entries)])
    if not isinstance(seen.move, Trial):
        ended = headline(SearchResult(entries, seen.move, Path()))
        return "\n".join([*lines, wrap(f"The search has ended. {ended}")])
    if seen.posterior is None:
        lines.append("Comparing the two ends; the search has not started.")
    runs = "a run" if seen.move.runs == 1 else words.count(seen.move.runs, "run")
    busy = search.pending_trials(entries) if spec.duts > 1 else {}
    for name, (trial, _) in busy.items():
        there, why = label(spec, trial.revision), in_user_terms(trial.why)
        lines.append(wrap(f"DUT {name}: {there}. Why: {why}."))
    if len(busy) < spec.duts:
        what, why = label(spec, seen.move.revision), in_user_terms(seen.move.why)
        lines.append(wrap(f"Next: {runs} of {what}. Why: {why}."))
    setups = f"{words.count(math.ceil(seen.setups), 'set-up')}, " if spec.setup else ""
    if seen.posterior:
        runs = words.count(math.ceil(seen.runs), "run")
        lines.append(wrap(f"Remaining, about: {setups}{runs}, {words.elapsed(seen.seconds)}."))
    return "\n".join(lines)


def as_data(entries: Sequence[Entry]) -> dict[str, Any]:
    """The state of a search as JSON."""
    seen = search_status(entries)
    trial = seen.move if isinstance(seen.move, Trial) else None
    return {
        "ended": serialization.tag_of(seen.move) if trial is None else None,
        "next": trial
        and {
            "revision": trial.revision,
            "why": in_user_terms(trial.why),
            "runs": trial.runs,
            **({"layout": trial.layout} if trial.layout else {}),
        },
        "under_way": [
            {"dut": name, "revision": one.revision, "why": in_user_terms(one.why)}
            for name, (one, _) in search.pending_trials(entries).items()
            if name
        ],
        "posterior": posterior_data(seen.posterior) if seen.posterior else None,
        "left": seen.posterior
        and {"setups": seen.setups, "runs": seen.runs, "hours": seen.seconds / _HOUR},
        "runs": search.runs_done(entries),
    }
