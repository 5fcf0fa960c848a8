"""Validates requests and resolves their revisions; collects one message per invalid field."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Sequence
from typing import TypeAlias

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.metric import SETTINGS_MARK, metric_of, scenario_of, split_settings
from netbisect.bisect.model.revision_key import commit_of, parts_of, short, with_patch
from netbisect.reports.documents.api import AskBody, PatchBody
from netbisect.steps.policy.request_spec import (
    BISECT,
    COMPARE,
    SERIES,
    InvalidRequestError,
    PatchRightError,
    ResolvedRequest,
)
from netbisect.steps.requests.api_bodies import patch_bytes
from netbisect.steps.service.mail_address import check_mail_address
from netbisect.steps.service.rights import Right, User
from netbisect.steps.service.settings import MOST_BOOTS, Settings
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.history import History, HistoryError
from netbisect.store.git.resolve import Review, commit_named, resolve, whereabouts
from netbisect.workers.build import phabricator
from netbisect.workers.build.patches import BY_HAND, Patch, PatchError, read
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.tunables import parse_settings

Faults: TypeAlias = dict[str, str]
"""The first error of each field."""
MOST_SUBJECTS = 7
"""Limit of ministat."""
ALL = "all"
"""Stands for all scenarios of a testbed."""
MOST_COMMITS = 10_000
"""Longest range of a search; FreeBSD has about as many commits in a year."""
_ALONE = re.compile(r"(D[1-9]\d{0,8})(?:@(.*))?\Z")
"""A review, optionally with its base."""
_WITH = re.compile(r"\+D[1-9]\d{0,8}\Z")
_NO_PATCH = "a search covers commits; patches are not supported"
USER_NAME = "expected a name of 1 to 100 characters without < > and quotation marks"
_WHO = re.compile(r"[^\x00-\x1f\x7f<>\"]{1,100}\Z")


def resolve_request(
    body: AskBody, user: User, history: History, settings: Settings, lab: Lab
) -> ResolvedRequest:
    """Validates and resolves a request; may fetch reviews. Raises InvalidRequestError."""
    faults = _plain_faults(body, user, settings)
    branch = _branch(body, history, settings, faults)
    testbeds = _testbeds(body, lab, faults)
    named = _SubjectResolver(history, lab, body, user, branch)
    try:
        subjects = () if "branch" in faults else named.subjects()
        if not faults:
            branch = _home(body, history, settings, branch, commit_of(subjects[-1]))
            between = named.between(subjects)
    except (RevisionError, HistoryError, PatchError) as error:
        faults["subjects"] = str(error)
    except InvalidRequestError as error:
        raise type(error)(faults | error.faults) from error
    if faults:
        raise InvalidRequestError(faults)
    margin = settings.min_effect_percent if body.margin_percent is None else body.margin_percent
    return ResolvedRequest(
        body=body,
        branch=branch,
        subjects=subjects,
        commits=tuple(named.commits.values()),
        patches=tuple(named.patches.values()),
        testbeds=testbeds,
        boots=settings.requests.boots if body.boots is None else body.boots,
        margin=-math.log1p(-margin / 100),
        hours=settings.requests.hours if body.hours is None else body.hours,
        range=between,
    )


def _plain_faults(body: AskBody, user: User, settings: Settings) -> Faults:
    """Checks the fields that need neither the tree nor the lab."""
    boots, margin, hours = body.boots, body.margin_percent, body.hours
    most = 10 * settings.requests.hours
    faults = {}
    if boots is not None and not 1 <= boots <= MOST_BOOTS:
        faults["boots"] = f"{boots} boots; expected 1 to {MOST_BOOTS}"
    if margin is not None and not 0 < margin < 50:  # noqa: PLR2004 - half
        faults["margin_percent"] = f"{margin} %; expected more than 0 and less than 50"
    if hours is not None and not 0 < hours <= most:
        faults["hours"] = f"{hours} hours; expected more than 0, at most {most:g}"
    for name in ("repeat", "patches"):
        if body.kind == BISECT and getattr(body, name):
            faults[name] = "not supported by a search, which verifies its result"
    if not is_user_name(user.name):
        faults["who"] = USER_NAME
    if body.address:
        try:
            check_mail_address(body.address)
        except ValueError as error:
            faults["address"] = str(error)
    return faults


def is_user_name(who: str) -> bool:
    """Whether this is a valid user name."""
    return _WHO.match(who) is not None and bool(who.strip())


def _branch(body: AskBody, history: History, settings: Settings, faults: Faults) -> str:
    branch = body.branch or settings.branches[0]
    try:
        known = history.branches()
    except HistoryError as error:
        faults.setdefault("branch", str(error))
        return branch
    if branch not in known:
        faults.setdefault("branch", f"unknown branch {branch!r}{suggestion(branch, known)}")
    return branch


def _home(body: AskBody, history: History, settings: Settings, branch: str, revision: str) -> str:
    """The branch whose series contains the last revision, or the given one if there is none."""
    found = whereabouts(history, revision).branches
    if branch in found:
        return branch
    if body.kind == BISECT and (body.branch or not found):
        where = f"is on {', '.join(found)}" if found else "is on no branch"
        raise InvalidRequestError({"branch": f"{short(revision)} {where}, not on {branch}"})
    if body.branch or not found:
        return branch
    return next((one for one in settings.branches if one in found), found[0])


def _testbeds(body: AskBody, lab: Lab, faults: Faults) -> dict[str, tuple[str, ...]]:
    known = {testbed.name: testbed for testbed in lab.testbeds}
    names = body.testbeds or (tuple(known) if len(known) == 1 else ())
    if not names:
        faults.setdefault("testbeds", f"expected one or more of {', '.join(known)}")
    found = {}
    for name in dict.fromkeys(names):
        if name not in known:
            faults.setdefault("testbeds", f"unknown testbed {name!r}{suggestion(name, known)}")
        else:
            found[name] = _scenarios(body, known[name], faults)
    return found


def _scenarios(body: AskBody, testbed: Testbed, faults: Faults) -> tuple[str, ...]:
    plain = testbed.scenarios if body.scenarios == (ALL,) else _named(body, testbed, faults)
    found = list(plain)
    for text in body.tunables:
        try:
            settings = parse_settings(text).text
        except ValueError as error:
            faults.setdefault("tunables", str(error))
        else:
            found += [
                metric_of(name).of(
                    f"{split_settings(scenario_of(name))[0]}{SETTINGS_MARK}{settings}"
                )
                for name in plain
            ]
    return tuple(dict.fromkeys(found))


def _named(body: AskBody, testbed: Testbed, faults: Faults) -> tuple[str, ...]:
    found: list[str] = []
    for name in body.scenarios:
        named = [one for one in testbed.scenarios if name in (one, scenario_of(one))]
        found += named
        if not named:
            faults.setdefault(
                "scenarios",
                f"{testbed.name} has no scenario {name!r}{suggestion(name, testbed.scenarios)}",
            )
    return tuple(dict.fromkeys(found)) or testbed.scenarios[:1]


class _SubjectResolver:
    """Resolves the subjects of a request to revisions and patches.

    The methods raise InvalidRequestError, RevisionError, HistoryError and PatchError.
    """

    def __init__(self, history: History, lab: Lab, body: AskBody, user: User, branch: str) -> None:
        self._history = history
        self._branch = branch
        self._lab = lab
        self._body = body
        self._user = user
        self.commits: dict[str, Commit] = {}
        self.patches: dict[str, Patch] = {}

    def subjects(self) -> tuple[str, ...]:
        names = [name.strip() for name in self._body.subjects]
        if self._body.kind == BISECT and len(names) == 1:
            return self._range(names[0])
        # A review alone, and a patch file, apply to the first revision.
        base = next((name for name in names if not _ALONE.match(name)), "") or self._branch
        base = _WITH.sub("", base)
        if names and all(map(_ALONE.match, names)):
            base = names[0].partition("@")[2] or base
            names.insert(0, base)
        if self._body.kind == COMPARE and len(names) == 1 and not self._body.patches:
            names = [*dict.fromkeys((base, *names))]  # `main+D5180` alone is compared with main
        if not names and self._body.patches:
            names.append(base)
        self._check_count(len(names) + len(self._body.patches))
        found = [self._subject(name, base) for name in names]
        found += [self._with_file(one, base) for one in self._body.patches]
        if self._body.kind == COMPARE and found[-1] == commit_of(found[0]):
            found.reverse()  # `main+D5180 main`: the patch is compared with its base
        same = [one for one in found if found.count(one) > 1]
        if same:
            raise RevisionError(f"{short(same[0])} appears twice")
        if self._body.kind == BISECT and any(parts_of(one)[1] for one in found):
            raise RevisionError(_NO_PATCH)
        return tuple(found)

    def _range(self, name: str) -> tuple[str, ...]:
        """The ends of `A..B`, or the bad end of `..B` and `B`."""
        found = resolve(self._history, name.removeprefix(".."), default_branch=self._branch)
        if isinstance(found, Review):
            raise RevisionError(_NO_PATCH)
        ends = (found,) if isinstance(found, Commit) else (found.good, found.bad)
        self.commits.update((one.revision, one) for one in ends)
        return tuple(one.revision for one in ends)

    def _check_count(self, count: int) -> None:
        """Checks the number of subjects before any review is fetched."""
        fewest = 1 if self._body.tunables else 2
        least, most, right = {
            COMPARE: (2, 2, "two revisions, or one and a patch"),
            BISECT: (2, 2, "a range A..B, or its bad end alone"),
            SERIES: (
                fewest,
                MOST_SUBJECTS,
                f"2 to {MOST_SUBJECTS} revisions or patches, or one with settings",
            ),
        }[self._body.kind]
        if not least <= count <= most:
            raise RevisionError(f"{count} given; expected {right}")

    def _subject(self, name: str, base: str) -> str:
        commit, patch = name, ""
        if alone := _ALONE.match(name):
            commit, patch = alone[2] or base, alone[1]
        elif _WITH.search(name):
            commit, _, patch = name.rpartition("+")
        found = self._commit(commit)
        if not patch:
            return found
        self._require_patch_right("subjects")
        known = next((one for one in self.patches.values() if one.name == patch), None)
        known = known or self._keep(phabricator.fetch(patch, self._lab.source.review_url))
        return with_patch(found, known.mark)

    def _with_file(self, one: PatchBody, base: str) -> str:
        found = self._commit(one.base or base)
        self._require_patch_right("patches")
        try:
            return with_patch(found, self._keep(read(BY_HAND, patch_bytes(one))).mark)
        except PatchError as error:
            raise InvalidRequestError({"patches": str(error)}) from error

    def _require_patch_right(self, name: str) -> None:
        if not self._user.has_right(Right.PATCH):
            message = f"patches need the right `patch`, which {self._user.name} lacks"
            raise PatchRightError({name: message})

    def _keep(self, patch: Patch) -> Patch:
        self.patches[patch.mark] = patch
        return patch

    def _commit(self, name: str) -> str:
        found = commit_named(self._history, name, default_branch=self._branch)
        self.commits[found.revision] = found
        return found.revision

    def between(self, ends: Sequence[str]) -> tuple[Commit, ...]:
        """Returns the commits of a range; none unless it is a search with both ends."""
        if self._body.kind != BISECT or len(ends) == 1:
            return ()
        good, bad = (self.commits[one].number for one in ends)
        if bad - good > MOST_COMMITS:
            raise RevisionError(f"{bad - good:,} commits; expected at most {MOST_COMMITS:,}")
        return tuple(self._history.between(*ends))


def _one_of(names: Collection[str]) -> str:
    *some, last = names
    return f"{', '.join(some)} or {last}" if some else last


def suggestion(name: str, known: Collection[str]) -> str:
    """Suggests similar names, as the end of a message."""
    similar = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if similar:
        return f"; did you mean {_one_of(similar)}?"
    return f"; expected one of {', '.join(sorted(known)[:8])}"
