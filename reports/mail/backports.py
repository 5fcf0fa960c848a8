"""Sentences about a commit on the stable branches, and about fixes."""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.bisect.commit_trailers import MergeStatus
from netbisect.reports.render.words import Name, clean, day, listing


def stable_sentences(
    fate: MergeStatus, branches: Sequence[str], label: Name, now: float
) -> list[str]:
    """Sentences for a report about a culprit; none without data.

    `branches` are the watched ones, such as `stable/14`; `now` is in seconds since the epoch.
    """
    sentences = [
        f"It has been on {branch} since {day(carrier.at)} ({label(carrier.revision)})"
        + (
            f", and was fixed there by {label(fate.fixed[branch].revision)}."
            if branch in fate.fixed
            else "."
        )
        for branch, carrier in sorted(fate.landed.items())
    ]
    sentences += _due(fate, branches, now)
    if fate.fixes:
        fixes = listing([f"{label(fix.revision)} ({clean(fix.subject)})" for fix in fate.fixes])
        sentences.append(f"A later commit claims to fix it: {fixes}.")
        waiting = sorted(branch for branch in fate.landed if branch not in fate.fixed)
        if waiting:
            sentences.append(f"The fix is not yet on {listing(waiting)}.")
    return sentences


def _due(fate: MergeStatus, branches: Sequence[str], now: float) -> list[str]:
    """Branches that still lack the commit, and the due date."""
    wanted = fate.to or tuple(branches)
    left = [branch for branch in wanted if branch not in fate.landed]
    if fate.due is None or (wanted and not left):
        return []
    where = listing(left) or "the stable branches"
    note = f"(MFC after: {clean(fate.words)})"
    if fate.due < now:
        return [f"It was due on {where} on {day(fate.due)} {note}, and is not there yet."]
    return [f"It is due on {where} on {day(fate.due)} {note}."]
