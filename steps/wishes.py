"""What somebody asks the lab for: checked in one place, whichever way it came.

A wish is what people wrote; a plan is what it means. Every field that is wrong gets one sentence.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Sequence

from netbisect.bisect.model import Commit
from netbisect.bisect.subject import commit_of, parts_of, short, with_patch
from netbisect.steps.settings import MOST_BOOTS, MailRule, Settings
from netbisect.steps.wish import (
    ALL,
    BISECT,
    COMPARE,
    KINDS,
    MOST_COMMITS,
    MOST_SUBJECTS,
    PRIORITIES,
    SERIES,
    Faults,
    NoPatchError,
    PatchFile,
    Plan,
    Wish,
    WishError,
)
from netbisect.store.history import History, HistoryError
from netbisect.store.revision_names import RevisionError
from netbisect.store.revisions import Review, commit_named, resolve, whereabouts
from netbisect.workers import review
from netbisect.workers.lab import Lab, Testbed
from netbisect.workers.patches import BY_HAND, Patch, PatchError, read

_ALONE = re.compile(r"(D[1-9]\d{0,8})(?:@(.*))?\Z")
"""A review, and perhaps what it is to be applied to."""
_WITH = re.compile(r"\+D[1-9]\d{0,8}\Z")
_NO_PATCH = "a search is among commits, and knows no patches"
_WHO = re.compile(r"[^\x00-\x1f\x7f<>\"]{1,100}\Z")


def plan(wish: Wish, history: History, settings: Settings, lab: Lab) -> Plan:
    """What a wish means, when all of it can be granted. It may fetch reviews.

    Raises:
        WishError: it cannot.
    """
    faults = Faults()
    _check_plain(wish, settings, faults)
    branch = _branch(wish, history, settings, faults)
    testbeds = _testbeds(wish, lab, faults)
    named = _Named(history, lab, wish, branch, faults)
    subjects = () if faults.found.keys() & {"kind", "branch"} else named.subjects(branch)
    between: tuple[Commit, ...] = ()
    if not faults.found:
        branch = _home(wish, history, settings, branch, commit_of(subjects[-1]), faults)
    if not faults.found and wish.kind == BISECT and len(subjects) > 1:
        between = named.between(subjects)
    if faults.found:
        raise (NoPatchError if faults.no_patch else WishError)(faults.found)
    margin = settings.min_effect_percent if wish.margin_percent is None else wish.margin_percent
    return Plan(
        wish=wish,
        branch=branch,
        subjects=subjects,
        commits=tuple(named.commits.values()),
        patches=tuple(named.patches.values()),
        testbeds=testbeds,
        boots=settings.requests.boots if wish.boots is None else wish.boots,
        margin=-math.log1p(-margin / 100),
        hours=settings.requests.hours if wish.hours is None else wish.hours,
        range=between,
    )


def _check_plain(wish: Wish, settings: Settings, faults: Faults) -> None:
    """What can be seen without the tree and the lab."""
    if wish.kind not in KINDS:
        faults.add("kind", f"there is no {wish.kind!r}; {_one_of(KINDS)} would be right")
    if wish.priority not in PRIORITIES:
        faults.add(
            "priority", f"there is no {wish.priority!r}; {_one_of(PRIORITIES)} would be right"
        )
    if wish.boots is not None and not 1 <= wish.boots <= MOST_BOOTS:
        faults.add("boots", f"{wish.boots} boots; 1 to {MOST_BOOTS} would be right")
    if wish.margin_percent is not None and not 0 < wish.margin_percent < 50:  # noqa: PLR2004 - half
        faults.add(
            "margin_percent",
            f"{wish.margin_percent:g} %; more than 0 and less than 50 would be right",
        )
    if wish.hours is not None and not 0 < wish.hours <= 10 * settings.requests.hours:
        most = 10 * settings.requests.hours
        faults.add("hours", f"{wish.hours:g} hours; more than 0, at most {most:g} would be right")
    if wish.kind == BISECT and (wish.repeat or wish.patches):
        name = "repeat" if wish.repeat else "patches"
        faults.add(name, "a search has none: it verifies what it finds by boots of its own")
    _check_person(wish, faults)


def is_name(who: str) -> bool:
    """Whether people can be called so."""
    return _WHO.match(who) is not None and bool(who.strip())


def _check_person(wish: Wish, faults: Faults) -> None:
    if not is_name(wish.who):
        faults.add("who", "a name of 1 to 100 letters would be right")
    if not wish.address:
        return
    plain = wish.address.isascii() and wish.address.isprintable()
    try:
        MailRule(to=(wish.address,))
    except ValueError:
        plain = False
    if not plain:
        faults.add("address", f"{wish.address!r} is no mail address")


def _branch(wish: Wish, history: History, settings: Settings, faults: Faults) -> str:
    branch = wish.branch or settings.branches[0]
    try:
        known = history.branches()
    except HistoryError as error:
        faults.add("branch", str(error))
        return branch
    if branch not in known:
        faults.add("branch", f"there is no branch {branch!r}{near(branch, known)}")
    return branch


def _home(
    wish: Wish, history: History, settings: Settings, branch: str, revision: str, faults: Faults
) -> str:
    """The branch in whose series the last revision belongs; the given one where that is none.

    The commits of a search get places on it, so that it must be the right one.
    """
    found = whereabouts(history, revision).branches
    if branch in found:
        return branch
    if wish.kind == BISECT and (wish.branch or not found):
        where = f"is on {', '.join(found)}" if found else "is on no branch"
        faults.add("branch", f"{short(revision)} {where}, not on {branch}")
    if wish.branch or not found:
        return branch
    return next((one for one in settings.branches if one in found), found[0])


def _testbeds(wish: Wish, lab: Lab, faults: Faults) -> dict[str, tuple[str, ...]]:
    known = {testbed.name: testbed for testbed in lab.testbeds}
    names = wish.testbeds or (tuple(known) if len(known) == 1 else ())
    if not names:
        faults.add("testbeds", f"one or more of {', '.join(known)} would be right")
    found = {}
    for name in dict.fromkeys(names):
        if name not in known:
            faults.add("testbeds", f"there is no testbed {name!r}{near(name, known)}")
        else:
            found[name] = _scenarios(wish, known[name], faults)
    return found


def _scenarios(wish: Wish, testbed: Testbed, faults: Faults) -> tuple[str, ...]:
    if wish.scenarios == (ALL,):
        return testbed.scenarios
    for name in wish.scenarios:
        if name not in testbed.scenarios:
            faults.add(
                "scenarios",
                f"{testbed.name} has no scenario {name!r}{near(name, testbed.scenarios)}",
            )
    return tuple(dict.fromkeys(wish.scenarios)) or testbed.scenarios[:1]


class _Named:
    """Finds out what the names of subjects mean."""

    def __init__(self, history: History, lab: Lab, wish: Wish, branch: str, faults: Faults) -> None:
        self._history = history
        self._branch = branch
        self._lab = lab
        self._wish = wish
        self._faults = faults
        self.commits: dict[str, Commit] = {}
        self.patches: dict[str, Patch] = {}

    def subjects(self, branch: str) -> tuple[str, ...]:
        """The names under which they are measured."""
        names = [name.strip() for name in self._wish.subjects]
        if self._wish.kind == BISECT and len(names) == 1:
            return self._range(names[0])
        # A review alone, and a patch file, are held against the first revision.
        base = next((name for name in names if not _ALONE.match(name)), "") or branch
        base = _WITH.sub("", base)
        if names and all(map(_ALONE.match, names)):
            base = names[0].partition("@")[2] or base
            names.insert(0, base)
        if not names and self._wish.patches:
            names.append(base)
        if not self._is_number(len(names) + len(self._wish.patches)):
            return ()
        found = [self._subject(name, base) for name in names]
        found += [self._with_file(one, base) for one in self._wish.patches]
        same = [one for one in found if one and found.count(one) > 1]
        if same:
            self._faults.add("subjects", f"{short(same[0])} is there twice; they must differ")
        if self._wish.kind == BISECT and any(parts_of(one)[1] for one in found):
            self._faults.add("subjects", _NO_PATCH)
        return tuple(one for one in found if one)

    def _range(self, name: str) -> tuple[str, ...]:
        """The ends of a range as it is written; of `..B` and `B` the bad one."""
        name = name.removeprefix("..")
        try:
            found = resolve(self._history, name, default_branch=self._branch)
        except (RevisionError, HistoryError) as error:
            self._faults.add("subjects", str(error))
            return ()
        if isinstance(found, Review):
            self._faults.add("subjects", _NO_PATCH)
            return ()
        ends = (found,) if isinstance(found, Commit) else (found.good, found.bad)
        self.commits.update((one.revision, one) for one in ends)
        return tuple(one.revision for one in ends)

    def _is_number(self, asked: int) -> bool:
        """Whether so many are right; before any is looked up, for a review is fetched."""
        kind = self._wish.kind
        least, most = {COMPARE: (2, 2), BISECT: (2, 2), SERIES: (2, MOST_SUBJECTS)}[kind]
        if least <= asked <= most:
            return True
        right = {
            COMPARE: "two revisions, or one and a patch",
            BISECT: "a range A..B, or its bad end alone",
            SERIES: f"2 to {MOST_SUBJECTS} revisions or patches",
        }[kind]
        self._faults.add("subjects", f"{asked} were given; {right} would be right")
        return False

    def _subject(self, name: str, base: str) -> str:
        commit, patch = name, ""
        if alone := _ALONE.match(name):
            commit, patch = alone[2] or base, alone[1]
        elif _WITH.search(name):
            commit, _, patch = name.rpartition("+")
        found = self._commit(commit)
        if found is None or not patch:
            return found.revision if found else ""
        if not self._may_patch("subjects"):
            return ""
        try:
            return with_patch(found.revision, self._fetched(patch).mark)
        except PatchError as error:
            self._faults.add("subjects", str(error))
            return ""

    def _fetched(self, name: str) -> Patch:
        known = next((one for one in self.patches.values() if one.name == name), None)
        return known or self._keep(review.fetch(name, self._lab.source.review_url))

    def _with_file(self, one: PatchFile, base: str) -> str:
        found = self._commit(one.base or base)
        if not self._may_patch("patches"):
            return ""
        try:
            patch = self._keep(read(BY_HAND, one.data))
        except PatchError as error:
            self._faults.add("patches", str(error))
            return ""
        return with_patch(found.revision, patch.mark) if found else ""

    def _may_patch(self, name: str) -> bool:
        if not self._wish.may_patch:
            self._faults.add(name, f"patches need the right `patch`, which {self._wish.who} lacks")
            self._faults.no_patch = True
        return self._wish.may_patch

    def _keep(self, patch: Patch) -> Patch:
        self.patches[patch.mark] = patch
        return patch

    def _commit(self, name: str) -> Commit | None:
        try:
            found = commit_named(self._history, name, default_branch=self._branch)
        except (RevisionError, HistoryError) as error:
            self._faults.add("subjects", str(error))
            return None
        self.commits[found.revision] = found
        return found

    def between(self, ends: Sequence[str]) -> tuple[Commit, ...]:
        """The commits of a range."""
        numbers = [self.commits[one].number for one in ends]
        if numbers[-1] - numbers[0] > MOST_COMMITS:
            self._faults.add(
                "subjects",
                f"{numbers[-1] - numbers[0]:,} commits; at most {MOST_COMMITS:,} would be right",
            )
            return ()
        try:
            return tuple(self._history.between(*ends))
        except HistoryError as error:
            self._faults.add("subjects", str(error))
            return ()


def _one_of(names: Collection[str]) -> str:
    *some, last = names
    return f"{', '.join(some)} or {last}"


def near(name: str, known: Collection[str]) -> str:
    """What may have been meant, as the end of a sentence."""
    alike = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if alike:
        return f"; {_one_of(alike) if alike[1:] else alike[0]} may be meant"
    return f"; there is {', '.join(sorted(known)[:8])}"
