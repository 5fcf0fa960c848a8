"""What reports tell of a lab and the ledger does not know: from its files, or from nothing else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from netbisect.bisect.model import Bisection, Commit, Comparison, Evidence, Kernel, Level
from netbisect.bisect.subject import OVERLAY_MARK
from netbisect.reports import words
from netbisect.reports.case import Compared
from netbisect.steps import bystanders, profiles, searches
from netbisect.steps.kernels import Kernels
from netbisect.steps.settings import Settings
from netbisect.store.history import History
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked
from netbisect.workers.lab import Lab, load_scenario
from netbisect.workers.tomlfile import FileError

BEFORE, AFTER = 60, 30
"""Levels that the picture of a case has round its change."""


class Surroundings(Protocol):
    """Where a case was measured."""

    @property
    def commit_link(self) -> str:
        """Where people look at a commit, as `Links.commit`."""

    def hardware(self, testbed: str) -> str:
        """Processor and network card, for people; may be empty."""

    def title(self, scenario: str) -> str:
        """Name of a scenario for people."""

    def evidence(self, ledger: Ledger, asked: Asked) -> Evidence:
        """All facts that bear on a question."""

    def series(
        self, ledger: Ledger, question: Comparison | Bisection
    ) -> Mapping[str, Sequence[Level]]:
        """By scenario: the levels that are told with a case."""

    def command(self, testbed: str, kernels: Mapping[str, Kernel], ends: tuple[str, str]) -> str:
        """What measures one boot of either end again; "" where nobody can say it."""

    def unmoved(
        self,
        ledger: Ledger,
        place: tuple[str, str],
        ends: tuple[Commit, Commit],
        change: float,
        until: float = math.inf,
    ) -> tuple[str, ...]:
        """What saw the same commits and did not change, for people; see bystanders.py."""


def trial_command(
    lab: str, testbed: str, kernels: Mapping[str, Kernel], ends: tuple[str, str]
) -> str:
    """Measures one boot of either end; "" where neither was built."""
    lines = [
        f"netbisect-lab --lab {lab} trial --testbed {testbed} --kernel {kernels[revision].key}"
        for revision in ends
        if revision in kernels
    ]
    return " && ".join(lines)


class OfLab:
    """A lab whose files are there."""

    def __init__(self, settings: Settings, kernels: Kernels) -> None:
        self._settings = settings
        self._kernels = kernels

    @property
    def commit_link(self) -> str:
        """As Surroundings says."""
        return self._settings.links.commit

    def hardware(self, testbed: str) -> str:
        """As Surroundings says."""
        return self._kernels.lab.testbed(testbed).description

    def title(self, scenario: str) -> str:
        """As Surroundings says."""
        return load_scenario(scenario, self._kernels.lab.scenario_directories).title

    def evidence(self, ledger: Ledger, asked: Asked) -> Evidence:
        """As Surroundings says."""
        return self._kernels.evidence(ledger, asked)

    def series(
        self, ledger: Ledger, question: Comparison | Bisection
    ) -> Mapping[str, Sequence[Level]]:
        """As Surroundings says: of every scenario, whole."""
        return {
            name: ledger.series(question.testbed, name, question.branch)
            for name in question.scenarios
        }

    def command(self, testbed: str, kernels: Mapping[str, Kernel], ends: tuple[str, str]) -> str:
        """As Surroundings says."""
        return trial_command(self._settings.lab.name, testbed, kernels, ends)

    def unmoved(
        self,
        ledger: Ledger,
        place: tuple[str, str],
        ends: tuple[Commit, Commit],
        change: float,
        until: float = math.inf,
    ) -> tuple[str, ...]:
        """As Surroundings says."""
        return bystanders.unmoved(ledger, self.title, place, ends, change, until)


class OfLedger:
    """A lab of which the ledger is there, and its files perhaps; it may have changed since.

    What was built is known by what was decided, so that neither the tree nor the present
    configuration has a say.
    """

    def __init__(
        self, commit_link: str = "", lab: Lab | None = None, home: Settings | None = None
    ) -> None:
        """Nothing is read yet.

        Args:
            commit_link: As `Links.commit`.
            lab: What its files say.
            home: Of the service whose ledger it is, where its folders are there too.
        """
        self._commit_link = commit_link
        self._home = home
        self._hardware = {one.name: one.description for one in lab.testbeds} if lab else {}
        self._folders = lab.scenario_directories if lab else ()
        self._titles: dict[str, str] = {}
        self._history = None
        if home is not None and lab is not None and home.mirror.is_dir():
            self._history = History(home.mirror, lab.source.repository)

    @property
    def commit_link(self) -> str:
        """As Surroundings says."""
        return self._commit_link

    def hardware(self, testbed: str) -> str:
        """As Surroundings says."""
        return self._hardware.get(testbed, "")

    def title(self, scenario: str) -> str:
        """As Surroundings says; one without a file goes by its name."""
        if scenario not in self._titles:
            try:
                self._titles[scenario] = load_scenario(scenario, self._folders).title
            except FileError:
                self._titles[scenario] = scenario
        return self._titles[scenario]

    def evidence(self, ledger: Ledger, asked: Asked) -> Evidence:
        """As Surroundings says."""
        decided = ledger.decisions(asked.id)
        plain = Counter((one.config.split(OVERLAY_MARK)[0], one.arch) for one in decided)
        config, arch = max(plain, key=lambda one: plain[one], default=("", ""))
        variants = {one.revision: one.config for one in decided if one.config != config}
        return ledger.evidence(asked, config=config, arch=arch, variants=variants)

    def series(
        self, ledger: Ledger, question: Comparison | Bisection
    ) -> Mapping[str, Sequence[Level]]:
        """As Surroundings says: of the leading scenario, the nights round the change."""
        trails = ledger.trails(question.testbed, question.lead)
        found_on = [one for one in trails if one.name.branch == question.branch]
        levels = found_on[0].epochs[-1].levels if found_on else ()
        ends = {question.good}
        if isinstance(question, Comparison):
            ends.add(question.bad)
        else:
            ends.update(one.revision for one in question.candidates)
        found = [i for i, level in enumerate(levels) if level.revision in ends]
        first, last = (found[0], found[-1]) if found else (len(levels), len(levels))
        return {question.lead: levels[max(first - BEFORE, 0) : last + AFTER]}

    def command(self, testbed: str, kernels: Mapping[str, Kernel], ends: tuple[str, str]) -> str:
        """As Surroundings says: without the lab's files nobody can."""
        if self._home is None or testbed not in self._hardware:
            return ""
        return trial_command(self._home.lab.name, testbed, kernels, ends)

    @property
    def at_home(self) -> bool:
        """Whether folders of the service are looked at too."""
        return self._home is not None

    def stable(
        self, culprit: str | None, branch: str, label: words.Name, now: float
    ) -> tuple[str, ...]:
        """What becomes of a culprit on other branches; nothing where the tree is not there."""
        if self._home is None or self._history is None:
            return ()
        others = [one for one in self._home.branches if one != branch]
        return tuple(searches.fate(self._history, culprit, branch, others, label, now))

    def profiles(self, ledger: Ledger, search: Asked) -> tuple[Compared, ...]:
        """Of the culprits of a search and their parents, where visits' folders are there."""
        if self._home is None:
            return ()
        return profiles.of_search(ledger, self._home.visits, search)

    def unmoved(
        self,
        ledger: Ledger,
        place: tuple[str, str],
        ends: tuple[Commit, Commit],
        change: float,
        until: float = math.inf,
    ) -> tuple[str, ...]:
        """As Surroundings says."""
        return bystanders.unmoved(ledger, self.title, place, ends, change, until)
