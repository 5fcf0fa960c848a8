"""Names, hardware, links and commands of a lab for reports."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from netbisect.bisect.model.detection_results import MIN_EFFECT
from netbisect.bisect.model.entities import Commit, Kernel
from netbisect.bisect.model.evidence import Evidence
from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.revision_key import OVERLAY_MARK
from netbisect.bisect.search import prior
from netbisect.reports.mail.backports import stable_sentences
from netbisect.reports.model.profiles import ProfilePair
from netbisect.reports.model.series import LevelDocument
from netbisect.reports.model.types import HASH_LENGTH, RevisionDocument
from netbisect.reports.render import summary, words
from netbisect.steps.policy import profiles
from netbisect.steps.policy.attempts import pause_of
from netbisect.steps.policy.worker_absence import absence_of
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import Action, JobRecord
from netbisect.store.db.tables import record_of
from netbisect.store.git.history import History, merge_status_of
from netbisect.store.git.mirror import HistoryError
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab, worker_name
from netbisect.workers.config.scenario import title_of_series
from netbisect.workers.config.toml import FileError

_BEFORE, _AFTER = 60, 30
"""Levels before and after a change in the plot of a case."""
_FILES_MAX, _LINES_MAX, _WIDTH_MAX = 4, 80, 200
"""Limits of a diff: files, lines, and characters of a line."""


def known_commit(ledger: Ledger, revision: str) -> Commit:
    """A commit by its hash; one without details if the ledger does not have it."""
    return known_commits(ledger, [revision])[0]


def known_commits(ledger: Ledger, revisions: Collection[str]) -> list[Commit]:
    """Like `known_commit` for any number of hashes, with one query."""
    found = ledger.commits.find(revisions)
    return [found.get(one) or Commit(one, 0, "", "", "", "", 0.0) for one in revisions]


class LabContext:
    """The lab of a ledger, with its files if they exist; it may have changed since.

    What was built is known by what was decided, so that neither the tree nor the present
    configuration has a say.
    """

    def __init__(self, lab: Lab | None = None, home: Settings | None = None) -> None:
        """Without the lab files, or the settings of a service, details are missing."""
        self.commit_link = home.links.commit if home else ""
        """Address of a commit, with `{revision}` for its hash."""
        self.min_effect = home.min_effect if home else MIN_EFFECT
        """Smallest drop worth an alert, as |ln ratio|."""
        self._home = home
        self._testbeds = {one.name: one for one in lab.testbeds} if lab else {}
        self._folders = lab.scenario_directories if lab else ()
        self._titles: dict[str, str] = {}
        self.history = None
        if home is not None and lab is not None and home.mirror.is_dir():
            self.history = History(home.mirror, lab.source.repository)

    def hardware(self, testbed: str) -> str:
        """Processor and network card; may be empty."""
        return self._testbeds[testbed].description if testbed in self._testbeds else ""

    def title(self, scenario: str) -> str:
        """Display name of a scenario."""
        if scenario not in self._titles:
            try:
                self._titles[scenario] = title_of_series(scenario, self._folders)
            except FileError:
                self._titles[scenario] = scenario
        return self._titles[scenario]

    def why_waiting(self, ledger: Ledger, decision: Action) -> str:
        """Why a decision does not run now; "" if it does, or if that is unknown."""
        if pause := pause_of(ledger, decision):
            return pause
        testbed = self._testbeds.get(decision.target) if decision.outcome is None else None
        if testbed is not None and absence_of(ledger, worker_name(testbed)) is not None:
            return f"waits for the worker of {testbed.name}, which is offline"
        return ""

    def evidence(self, ledger: Ledger, record: JobRecord) -> Evidence:
        """All facts relevant for a job."""
        decided = ledger.actions.of_job(record.id)
        plain = Counter((one.config.split(OVERLAY_MARK)[0], one.arch) for one in decided)
        config, arch = max(plain, key=lambda one: plain[one], default=("", ""))
        variants = {one.revision: one.config for one in decided if one.config != config}
        return ledger.evidence.gather(record, config=config, arch=arch, variants=variants)

    def revision(self, commit: Commit) -> RevisionDocument:
        """The document of a commit, which need not be known."""
        name, address = commit.revision, self.commit_link.replace("{revision}", commit.revision)
        if not (commit.subject or commit.author or commit.at):
            return RevisionDocument(name, name[:HASH_LENGTH], "", "", None, address)
        trailers = tuple(summary.trailers(commit))
        return record_of(RevisionDocument, commit, address=address, trailers=trailers)

    def levels(self, ledger: Ledger, job: CompareJob | BisectJob) -> tuple[LevelDocument, ...]:
        """Levels of the leading scenario around the ends of a job."""
        found_on = [
            one
            for one in ledger.series.histories(job.testbed, job.lead)
            if one.name.branch == job.branch
        ]
        if not found_on:
            return ()
        candidates = job.candidates if isinstance(job, BisectJob) else ()
        ends = {job.good, job.bad, *(one.revision for one in candidates)}
        latest_first = [epoch.levels for epoch in reversed(found_on[0].epochs)]
        levels = max(latest_first, key=lambda one: sum(level.revision in ends for level in one))
        found = [i for i, level in enumerate(levels) if level.revision in ends]
        first, last = (found[0], found[-1]) if found else (len(levels), len(levels))
        shown = levels[max(first - _BEFORE, 0) : last + _AFTER]
        commits = ledger.commits.find({one.revision for one in shown})
        baseline = {id(one) for one in found_on[0].baseline}
        return tuple(
            LevelDocument.of(
                one, job.lead, commits[one.revision].label, baseline=id(one) in baseline
            )
            for one in shown
        )

    def command(self, testbed: str, kernels: Mapping[str, Kernel], ends: tuple[str, str]) -> str:
        """Command that measures one boot of either end; "" if unknown."""
        if self._home is None or testbed not in self._testbeds:
            return ""
        trial = f"netbisect-lab --lab {self._home.lab.name} trial --testbed {testbed} --kernel"
        return " && ".join(f"{trial} {kernels[one].key}" for one in ends if one in kernels)

    def alert_link(self, number: int) -> str:
        """Address of the page of an alert; "" without a service."""
        return self._home.report_address(number) if self._home is not None else ""

    def stable(
        self, culprit: str | None, branch: str, label: words.Name, now: float
    ) -> tuple[str, ...]:
        """Sentences on backports and fixes of a culprit; none without one, or without the tree."""
        if culprit is None or self._home is None or self.history is None:
            return ()
        others = [one for one in self._home.branches if one != branch]
        with contextlib.suppress(HistoryError):  # a branch was rewritten, or is not fetched
            known = merge_status_of(self.history, culprit, branch, others)
            return tuple(stable_sentences(known, others, label, now))
        return ()

    def source(self, culprit: str, testbed: str) -> dict[str, Any]:
        """Fields of a document about the source of a culprit; none without the tree.

        The diff is its beginning in the files most relevant for the testbed.
        """
        with contextlib.suppress(HistoryError):
            if self.history and culprit:
                [commit] = self.history.described({culprit: 0})
                known = self._testbeds.get(testbed)
                paths = prior.most_relevant(commit.paths, known.drivers if known else ())
                return {
                    "diffstat": self.history.diffstat(culprit),
                    "diff": _beginning(self.history.diff(culprit, paths[:_FILES_MAX])),
                    "committer": self.history.committer(culprit),
                }
        return {}

    def profiles(self, ledger: Ledger, search: JobRecord) -> tuple[ProfilePair, ...]:
        """Profiles of the culprits of a search and their parents, if their files exist."""
        if self._home is None:
            return ()
        return profiles.profiles_of_search(ledger, self._home.trial_logs, search)


def _beginning(diff: str) -> str:
    lines = diff.splitlines()
    more = len(lines) - _LINES_MAX
    end = [f"... {words.count(more, 'more line')}"] if more > 0 else []
    return "\n".join([*(line[:_WIDTH_MAX] for line in lines[:_LINES_MAX]), *end])
