"""What a search begins with, and what becomes of the commit that it names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from netbisect.bisect import detect, prior
from netbisect.bisect.model import Bisection, Commit, Comparison, Confirmed, Level, Noise
from netbisect.reports.stable import stable_sentences
from netbisect.reports.words import Name
from netbisect.store.history import History, HistoryError
from netbisect.store.landings import fate_of
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked
from netbisect.workers.lab import Testbed

_LEAST_BOOT_SHARE = 0.25
"""Of the scatter of boots with one run, that is the boots' own whatever the lab file says."""


def commits_between(
    ledger: Ledger, history: History, question: Comparison
) -> tuple[list[Commit], str]:
    """The commits between the ends of a comparison; or why there can be no search."""
    try:
        history.update()
        commits = history.between(question.good, question.bad)
        ledger.learn([history.commit(question.good), *commits], question.branch)
    except HistoryError as error:
        return [], f"There is no search for the commit: {error}"
    return commits, ""


def search(
    ledger: Ledger,
    testbed: Testbed,
    question: Comparison,
    confirmed: Confirmed,
    commits: Sequence[Commit],
    mates: Sequence[Testbed] = (),
) -> Bisection | None:
    """Which of these commits made the change that was confirmed? None without any.

    Args:
        ledger: It knows how boots scatter.
        testbed: Where it was confirmed.
        question: By which comparison.
        confirmed: With which answer.
        commits: Those after the good end, to the bad one.
        mates: Testbeds of the same make that may help.
    """
    if not commits:
        return None
    lead = confirmed.effects[0]
    noise = _noise_before(ledger, testbed, question, lead.scenario) or noise_of((), testbed)
    return Bisection(
        branch=question.branch,
        testbed=question.testbed,
        good=question.good,
        candidates=prior.candidates(commits, testbed.drivers),
        scenarios=question.scenarios,
        lead=lead.scenario,
        effect=lead.ln_ratio,
        noise=noise,
        layouts=testbed.layouts,
        others={
            one.name: _noise_before(ledger, one, question, lead.scenario) or noise for one in mates
        },
    )


def shared(ledger: Ledger, wanted: Bisection, confirmed: Confirmed) -> Asked | None:
    """The open search on a testbed of the group that looks for the same commit, if there is one.

    It has the same ends, and what it looks at was confirmed here too.

    Args:
        ledger: Where open questions are.
        wanted: The search that would be asked for.
        confirmed: What was confirmed on its testbed.
    """
    for asked in ledger.open_questions():
        other = asked.question
        if not isinstance(other, Bisection) or wanted.testbed not in other.others:
            continue
        ends = (other.branch, other.good, other.candidates[-1].revision)
        seen_here = any(
            effect.scenario == other.lead
            and effect.low * effect.high > 0
            and effect.ln_ratio * other.effect > 0
            for effect in confirmed.effects
        )
        same = ends == (wanted.branch, wanted.good, wanted.candidates[-1].revision)
        if same and seen_here:
            return asked
    return None


def _noise_before(
    ledger: Ledger, testbed: Testbed, question: Comparison, scenario: str
) -> Noise | None:
    """How the boots of a testbed scattered up to the good end; None where it has measured none."""
    levels = ledger.series(testbed.name, scenario, question.branch)
    places = {level.revision: i for i, level in enumerate(levels)}
    end = places.get(question.good, len(levels) - 1) + 1
    return noise_of(levels[:end], testbed) if levels else None


def noise_of(levels: Sequence[Level], testbed: Testbed) -> Noise:
    """What the levels show between boots of one run; the lab file says which part is the run's."""
    noise, run = detect.noise_of(levels), testbed.run_noise_percent / 100
    boot = math.sqrt(max(noise.boot**2 - run**2, (_LEAST_BOOT_SHARE * noise.boot) ** 2))
    return replace(noise, boot=boot, run=run)


def fate(
    history: History,
    culprit: str | None,
    branch: str,
    others: Sequence[str],
    label: Name,
    now: float,
) -> list[str]:
    """Sentences on where a commit is due to land, has landed, and is mended; none without one."""
    if culprit is None:
        return []
    try:
        known = fate_of(history, culprit, branch, others)
    except HistoryError:
        return []  # the branch was rewritten, or one of them is not fetched
    return stable_sentences(known, others, label, now)
