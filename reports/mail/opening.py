"""The subject of a mail about an alert, and its first lines."""

from __future__ import annotations

import math

from netbisect.reports.model.changes import ChangeDocument
from netbisect.reports.render import summary, words

_HASH_LENGTH = 10
"""Digits of a hash in a subject."""
_COMMIT_MAX, _SUBJECT_MAX = 60, 160
"""Longest subject of a commit in the subject of a mail, and longest subject of a mail."""
_VALUE_MAX = 60
"""Columns of a line beside the longest name."""
_TO_DO = {
    "suspects": "look at these commits; the measurements cannot separate them",
    "drift": "look at the trend; there is no commit to revert",
    "not-reproduced": "nothing; the alert is withdrawn",
    "unfinished": "look at the lab; the alert stays open",
}


def subject(document: ChangeDocument) -> str:
    """Names the commit, if one is verified, or else the two ends."""
    effects = document.differences
    change = f" {words.percent(effects[0].ln_ratio, effects[0].scenario)}" if effects else ""
    moved = f"{document.title(document.lead)}{change} on {document.testbed}"
    named = _commits(document)
    if named:
        return _cut(words.clean(f"[netbisect] {document.branch}: {named}: {moved}"), _SUBJECT_MAX)
    ends = f"between {document.good.short} and {document.bad.short}"
    text = f"[netbisect] {document.branch}: {moved} {ends}"
    text = _cut(words.clean(text), _SUBJECT_MAX)
    decided = document.outcome not in summary.UNDECIDED
    return f"Re: {text}" if decided and document.retest else text


def _commits(document: ChangeDocument) -> str:
    """Hash and subject of the verified commit; how many more there are."""
    found = document.culprits
    if not found:
        return ""
    commit = document.commit(found[0].revision)
    named = found[0].revision[:_HASH_LENGTH]
    if commit is not None:
        named += f" {_cut(words.clean(commit.subject), _COMMIT_MAX)}"
    return named + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")


def first_lines(document: ChangeDocument) -> list[tuple[str, str]]:
    """Change, size, confidence, committer, and action; a change in the other direction, if any."""
    effects = document.differences
    other = words.opposite(effects)
    much = f"{words.change(effects[0])}, " if effects else ""
    lines = [
        ("what", _what(document)),
        ("how much", f"{much}{document.title(document.lead)} on {document.testbed}"),
        *([("but", f"{words.change(other)}, {document.title(other.scenario)}")] if other else []),
        ("how sure", _certainty(document)),
        ("committed by", _committer(document)),
        ("to do", _to_do(document)),
    ]
    return [(name, _cut(words.clean(value), _VALUE_MAX)) for name, value in lines]


def _what(document: ChangeDocument) -> str:
    if document.unsearched:
        return f"a drop on {document.branch}; no search for its commit"
    texts = {
        "culprit": f"commit {_commits(document)}",
        "several": f"commit {_commits(document)}",
        "suspects": f"narrowed to {words.count(len(document.suspects), 'commit')}",
        "drift": "a gradual change; no single commit",
        "not-reproduced": "not reproduced",
        "unfinished": "the search ended without a result",
    }
    begun = f"a drop on {document.branch}; the search for its commit begins"
    return texts.get(document.outcome, begun)


def _certainty(document: ChangeDocument) -> str:
    posterior = document.posterior
    if document.culprits:
        found = document.culprits[0]
        boots = words.boots(found.differences[0])
        return f"{words.certainty(found.chance)}, verified against its parent, {boots}"
    if posterior is not None and document.outcome == "suspects":
        mass = math.fsum(posterior.chances.get(one, 0.0) for one in document.suspects)
        return f"{words.certainty(mass)} that it is one of them"
    if posterior is not None and document.outcome == "drift":
        return f"{words.certainty(posterior.drift)} that it is not a step"
    if posterior is not None and document.outcome == "not-reproduced":
        return f"{words.certainty(posterior.none)} that nothing changed"
    if not document.retest:
        return "not confirmed"
    lead = document.retest[0]
    by_chance = words.probability_by_chance(lead.p)
    return f"by chance: {by_chance}; {words.boots(lead)}, interleaved"


def _committer(document: ChangeDocument) -> str:
    """Committer of the verified commit; otherwise the number of candidates."""
    found = document.culprits
    commit = document.commit(found[0].revision) if found else None
    if commit is not None:
        author = f"{commit.author} <{commit.email}>"
        day = words.day_known(commit.at)
        same = document.committer in {"", commit.email}
        return f"{author}, {day}" if same else f"{document.committer}, {day}; author: {author}"
    if found or document.unsearched:
        return "not known"
    if document.outcome in {"not-reproduced", "drift"}:
        return "not applicable"
    left = len(document.suspects or document.candidates)
    one_of = f"one of {words.count(left, 'commit')}"
    return f"not known; {one_of if left > 1 else 'the only commit is not verified'}"


def _to_do(document: ChangeDocument) -> str:
    if document.outcome in {"culprit", "several"}:
        return "fix, revert or accept it" + ("; test a fix from its page" if document.alert else "")
    if document.unsearched:
        return 'see "Next" below'
    return _TO_DO.get(document.outcome, "nothing yet; the commit follows as a reply")


def _cut(text: str, length: int) -> str:
    """Shortens a text; the mark is ASCII, so that headers stay readable."""
    return text if len(text) <= length else f"{text[: length - 3].rstrip()}..."
