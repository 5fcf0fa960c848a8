"""The subject of a mail about an alert, and its first lines."""

from __future__ import annotations

import math
from typing import assert_never

from netbisect.bisect.model.results import (
    Culprit,
    Drift,
    NotReproduced,
    SeveralCulprits,
    Suspects,
    Unfinished,
)
from netbisect.reports.model.case import Case
from netbisect.reports.render import summary, words

_HASH_LENGTH = 10
"""Digits of a hash in a subject."""
_COMMIT_MAX, _SUBJECT_MAX = 60, 160
"""Longest subject of a commit in the subject of a mail, and longest subject of a mail."""
_VALUE_MAX = 60
"""Columns of a line beside the longest name."""


def subject(case: Case) -> str:
    """Names the commit, if one is verified, or else the two ends."""
    effects = summary.effects(case)
    change = f" {words.percent(effects[0].ln_ratio, effects[0].scenario)}" if effects else ""
    moved = f"{case.title(case.lead)}{change} on {case.testbed}"
    named = _commits(case)
    if named:
        return _cut(words.clean(f"[netbisect] {case.branch}: {named}: {moved}"), _SUBJECT_MAX)
    good, bad = summary.subject_name(case.good), summary.subject_name(case.bad)
    text = f"[netbisect] {case.branch}: {moved} between {good} and {bad}"
    text = _cut(words.clean(text), _SUBJECT_MAX)
    return f"Re: {text}" if case.finding and case.confirmed else text


def _commits(case: Case) -> str:
    """Hash and subject of the verified commit; how many more there are."""
    found = summary.culprits(case)
    if not found:
        return ""
    commit = case.commit(found[0].revision)
    named = found[0].revision[:_HASH_LENGTH]
    if commit is not None:
        named += f" {_cut(words.clean(commit.subject), _COMMIT_MAX)}"
    return named + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")


def first_lines(case: Case) -> list[tuple[str, str]]:
    """Change, size, confidence, committer, and action; a change in the other direction, if any."""
    effects = summary.effects(case)
    other = words.opposite(effects)
    much = f"{words.change(effects[0])}, " if effects else ""
    lines = [
        ("what", _what(case)),
        ("how much", f"{much}{case.title(case.lead)} on {case.testbed}"),
        *([("but", f"{words.change(other)}, {case.title(other.scenario)}")] if other else []),
        ("how sure", _certainty(case)),
        ("committed by", _committer(case)),
        ("to do", _to_do(case)),
    ]
    return [(name, _cut(words.clean(value), _VALUE_MAX)) for name, value in lines]


def _what(case: Case) -> str:
    match case.finding:
        case None:
            return f"a drop on {case.branch}; the search for its commit begins"
        case Culprit() | SeveralCulprits():
            return f"commit {_commits(case)}"
        case Suspects():
            return f"narrowed to {words.count(len(case.finding.revisions), 'commit')}"
        case Drift():
            return "a gradual change; no single commit"
        case NotReproduced():
            return "not reproduced"
        case Unfinished():
            return "the search ended without a result"
        case _:
            assert_never(case.finding)


def _certainty(case: Case) -> str:
    match case.finding:
        case None | Unfinished():
            if case.confirmed is None:
                return "not confirmed"
            lead = case.confirmed.effects[0]
            by_chance = words.probability_by_chance(lead.p)
            return f"by chance: {by_chance}; {words.boots(lead)}, interleaved"
        case Culprit() | SeveralCulprits():
            found = summary.culprits(case)[0]
            chance = max(found.chance, found.belief.chances.get(found.revision, 0.0))
            boots = words.boots(found.effects[0])
            return f"{words.certainty(chance)}, verified against its parent, {boots}"
        case Suspects(revisions=revisions, belief=belief):
            mass = math.fsum(belief.chances.get(one, 0.0) for one in revisions)
            return f"{words.certainty(mass)} that it is one of them"
        case Drift(belief=belief):
            return f"{words.certainty(belief.drift)} that it is no step"
        case NotReproduced(belief=belief):
            return f"{words.certainty(belief.none)} that nothing changed"
        case _:
            assert_never(case.finding)


def _committer(case: Case) -> str:
    """Committer of the verified commit; otherwise the number of candidates."""
    found = summary.culprits(case)
    commit = case.commit(found[0].revision) if found else None
    if commit is not None:
        author = f"{commit.author} <{commit.email}>"
        day = words.day(commit.at)
        same = case.committer in {"", commit.email}
        return f"{author}, {day}" if same else f"{case.committer}, {day}; author: {author}"
    if found:
        return "not known"
    if isinstance(case.finding, NotReproduced | Drift):
        return "not applicable"
    left = case.finding.revisions if isinstance(case.finding, Suspects) else case.commits
    one_of = f"one of {words.count(len(left), 'commit')}"
    return f"not known; {one_of if len(left) > 1 else 'the only commit is not verified'}"


def _to_do(case: Case) -> str:
    match case.finding:
        case None:
            return "nothing yet; the commit follows as a reply"
        case Culprit() | SeveralCulprits():
            page = "; its page measures a fix" if case.number else ""
            return f"fix, revert or accept it{page}"
        case Suspects():
            return "look at these commits; the measurements cannot separate them"
        case Drift():
            return "look at the trend; there is no commit to revert"
        case NotReproduced():
            return "nothing; the alert is withdrawn"
        case Unfinished():
            return "look at the lab; the alert stays open"
        case _:
            assert_never(case.finding)


def _cut(text: str, length: int) -> str:
    """Shortens a text; the mark is ASCII, so that headers stay readable."""
    return text if len(text) <= length else f"{text[: length - 3].rstrip()}..."
