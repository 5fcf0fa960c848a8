"""Validates requests and resolves their revisions; collects one message per invalid field."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Sequence

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.metric import SETTINGS_MARK, metric_of, scenario_of, split_settings
from netbisect.bisect.model.revision_key import commit_of, parts_of, short, with_patch
from netbisect.steps.policy.request_spec import (
    ALL,
    BISECT,
    COMPARE,
    KINDS,
    MOST_COMMITS,
    MOST_SUBJECTS,
    PRIORITIES,
    SERIES,
    FieldErrors,
    InvalidRequestError,
    PatchFile,
    PatchRightError,
    RequestSpec,
    ResolvedRequest,
)
from netbisect.steps.service.mail_address import check_mail_address
from netbisect.steps.service.settings import MOST_BOOTS, Settings
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.history import History, HistoryError
from netbisect.store.git.resolve import Review, commit_named, resolve, whereabouts
from netbisect.workers.build import phabricator
from netbisect.workers.build.patches import BY_HAND, Patch, PatchError, read
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.tunables import parse_settings

_ALONE = re.compile(r"(D[1-9]\d{0,8})(?:@(.*))?\Z")
"""A review, optionally with its base."""
_WITH = re.compile(r"\+D[1-9]\d{0,8}\Z")
_NO_PATCH = "a search is among commits; patches are not supported"
_WHO = re.compile(r"[^\x00-\x1f\x7f<>\"]{1,100}\Z")


def resolve_request(
    spec: RequestSpec, history: History, settings: Settings, lab: Lab
) -> ResolvedRequest:
    """Validates and resolves a request; may fetch reviews. Raises InvalidRequestError."""
    faults = FieldErrors()
    _check_plain(spec, settings, faults)
    branch = _branch(spec, history, settings, faults)
    testbeds = _testbeds(spec, lab, faults)
    named = _SubjectResolver(history, lab, spec, branch, faults)
    subjects = () if faults.found.keys() & {"kind", "branch"} else named.subjects(branch)
    between: tuple[Commit, ...] = ()
    if not faults.found:
        branch = _home(spec, history, settings, branch, commit_of(subjects[-1]), faults)
    if not faults.found and spec.kind == BISECT and len(subjects) > 1:
        between = named.between(subjects)
    if faults.found:
        raise (PatchRightError if faults.no_patch else InvalidRequestError)(faults.found)
    margin = settings.min_effect_percent if spec.margin_percent is None else spec.margin_percent
    return ResolvedRequest(
        spec=spec,
        branch=branch,
        subjects=subjects,
        commits=tuple(named.commits.values()),
        patches=tuple(named.patches.values()),
        testbeds=testbeds,
        boots=settings.requests.boots if spec.boots is None else spec.boots,
        margin=-math.log1p(-margin / 100),
        hours=settings.requests.hours if spec.hours is None else spec.hours,
        range=between,
    )


def _check_plain(spec: RequestSpec, settings: Settings, faults: FieldErrors) -> None:
    """Checks the fields that need neither the tree nor the lab."""
    boots, margin, hours = spec.boots, spec.margin_percent, spec.hours
    most = 10 * settings.requests.hours
    verified = "not supported by a search, which verifies its result"
    for valid, name, message in (
        (spec.kind in KINDS, "kind", f"unknown kind {spec.kind!r}; expected {_one_of(KINDS)}"),
        (
            spec.priority in PRIORITIES,
            "priority",
            f"unknown priority {spec.priority!r}; expected {_one_of(PRIORITIES)}",
        ),
        (
            boots is None or 1 <= boots <= MOST_BOOTS,
            "boots",
            f"{boots} boots; expected 1 to {MOST_BOOTS}",
        ),
        (
            margin is None or 0 < margin < 50,  # noqa: PLR2004 - half
            "margin_percent",
            f"{margin} %; expected more than 0 and less than 50",
        ),
        (
            hours is None or 0 < hours <= most,
            "hours",
            f"{hours} hours; expected more than 0, at most {most:g}",
        ),
        (spec.kind != BISECT or not spec.repeat, "repeat", verified),
        (spec.kind != BISECT or not spec.patches, "patches", verified),
        (is_user_name(spec.who), "who", "expected a name of 1 to 100 characters"),
    ):
        if not valid:
            faults.add(name, message)
    if spec.address:
        try:
            check_mail_address(spec.address)
        except ValueError as error:
            faults.add("address", str(error))


def is_user_name(who: str) -> bool:
    """Whether this is a valid user name."""
    return _WHO.match(who) is not None and bool(who.strip())


def _branch(spec: RequestSpec, history: History, settings: Settings, faults: FieldErrors) -> str:
    branch = spec.branch or settings.branches[0]
    try:
        known = history.branches()
    except HistoryError as error:
        faults.add("branch", str(error))
        return branch
    if branch not in known:
        faults.add("branch", f"unknown branch {branch!r}{suggestion(branch, known)}")
    return branch


def _home(
    spec: RequestSpec,
    history: History,
    settings: Settings,
    branch: str,
    revision: str,
    faults: FieldErrors,
) -> str:
    """The branch whose series contains the last revision, or the given one if there is none."""
    found = whereabouts(history, revision).branches
    if branch in found:
        return branch
    if spec.kind == BISECT and (spec.branch or not found):
        where = f"is on {', '.join(found)}" if found else "is on no branch"
        faults.add("branch", f"{short(revision)} {where}, not on {branch}")
    if spec.branch or not found:
        return branch
    return next((one for one in settings.branches if one in found), found[0])


def _testbeds(spec: RequestSpec, lab: Lab, faults: FieldErrors) -> dict[str, tuple[str, ...]]:
    known = {testbed.name: testbed for testbed in lab.testbeds}
    names = spec.testbeds or (tuple(known) if len(known) == 1 else ())
    if not names:
        faults.add("testbeds", f"expected one or more of {', '.join(known)}")
    found = {}
    for name in dict.fromkeys(names):
        if name not in known:
            faults.add("testbeds", f"unknown testbed {name!r}{suggestion(name, known)}")
        else:
            found[name] = _scenarios(spec, known[name], faults)
    return found


def _scenarios(spec: RequestSpec, testbed: Testbed, faults: FieldErrors) -> tuple[str, ...]:
    plain = testbed.scenarios if spec.scenarios == (ALL,) else _named(spec, testbed, faults)
    found = list(plain)
    for text in spec.tunables:
        try:
            settings = parse_settings(text).text
        except ValueError as error:
            faults.add("tunables", str(error))
        else:
            found += [
                metric_of(name).of(
                    f"{split_settings(scenario_of(name))[0]}{SETTINGS_MARK}{settings}"
                )
                for name in plain
            ]
    return tuple(dict.fromkeys(found))


def _named(spec: RequestSpec, testbed: Testbed, faults: FieldErrors) -> tuple[str, ...]:
    found: list[str] = []
    for name in spec.scenarios:
        named = [one for one in testbed.scenarios if name in (one, scenario_of(one))]
        found += named
        if not named:
            faults.add(
                "scenarios",
                f"{testbed.name} has no scenario {name!r}{suggestion(name, testbed.scenarios)}",
            )
    return tuple(dict.fromkeys(found)) or testbed.scenarios[:1]


class _SubjectResolver:
    """Resolves the subjects of a request to revisions and patches."""

    def __init__(
        self, history: History, lab: Lab, spec: RequestSpec, branch: str, faults: FieldErrors
    ) -> None:
        self._history = history
        self._branch = branch
        self._lab = lab
        self._spec = spec
        self._faults = faults
        self.commits: dict[str, Commit] = {}
        self.patches: dict[str, Patch] = {}

    def subjects(self, branch: str) -> tuple[str, ...]:
        """Returns the revision keys of the subjects."""
        names = [name.strip() for name in self._spec.subjects]
        if self._spec.kind == BISECT and len(names) == 1:
            return self._range(names[0])
        # A review alone, and a patch file, apply to the first revision.
        base = next((name for name in names if not _ALONE.match(name)), "") or branch
        base = _WITH.sub("", base)
        if names and all(map(_ALONE.match, names)):
            base = names[0].partition("@")[2] or base
            names.insert(0, base)
        if not names and self._spec.patches:
            names.append(base)
        if not self._check_count(len(names) + len(self._spec.patches)):
            return ()
        found = [self._subject(name, base) for name in names]
        found += [self._with_file(one, base) for one in self._spec.patches]
        same = [one for one in found if one and found.count(one) > 1]
        if same:
            self._faults.add("subjects", f"{short(same[0])} appears twice")
        if self._spec.kind == BISECT and any(parts_of(one)[1] for one in found):
            self._faults.add("subjects", _NO_PATCH)
        return tuple(one for one in found if one)

    def _range(self, name: str) -> tuple[str, ...]:
        """The ends of `A..B`, or the bad end of `..B` and `B`."""
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

    def _check_count(self, count: int) -> bool:
        """Checks the number of subjects before any review is fetched."""
        kind = self._spec.kind
        fewest = 1 if self._spec.tunables else 2
        least, most = {COMPARE: (2, 2), BISECT: (2, 2), SERIES: (fewest, MOST_SUBJECTS)}[kind]
        if least <= count <= most:
            return True
        right = {
            COMPARE: "two revisions, or one and a patch",
            BISECT: "a range A..B, or its bad end alone",
            SERIES: f"2 to {MOST_SUBJECTS} revisions or patches, or one with settings",
        }[kind]
        self._faults.add("subjects", f"{count} given; expected {right}")
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
        return known or self._keep(phabricator.fetch(name, self._lab.source.review_url))

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
        if not self._spec.may_patch:
            self._faults.add(name, f"patches need the right `patch`, which {self._spec.who} lacks")
            self._faults.no_patch = True
        return self._spec.may_patch

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
        """Returns the commits of a range."""
        numbers = [self.commits[one].number for one in ends]
        if numbers[-1] - numbers[0] > MOST_COMMITS:
            self._faults.add(
                "subjects",
                f"{numbers[-1] - numbers[0]:,} commits; expected at most {MOST_COMMITS:,}",
            )
            return ()
        try:
            return tuple(self._history.between(*ends))
        except HistoryError as error:
            self._faults.add("subjects", str(error))
            return ()


def _one_of(names: Collection[str]) -> str:
    *some, last = names
    return f"{', '.join(some)} or {last}" if some else last


def suggestion(name: str, known: Collection[str]) -> str:
    """Suggests similar names, as the end of a message."""
    similar = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if similar:
        return f"; did you mean {_one_of(similar)}?"
    return f"; expected one of {', '.join(sorted(known)[:8])}"
