"""Submits, estimates and changes requests, for commands, forms and the API.

Every change is one transaction with an entry in the audit log. The methods are synchronous; the
master calls them in the database thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import BisectJob, CompareJob, Job, MeasureJob
from netbisect.bisect.model.mail import Mail
from netbisect.reports.documents.api import (
    AskBody,
    CancelBody,
    CostEstimate,
    ExtendBody,
    PriorityBody,
    ResumeBody,
)
from netbisect.reports.pages import requests
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table
from netbisect.steps.policy import bisections
from netbisect.steps.policy.request_cost import cost_of, price_of_trial, search_cost
from netbisect.steps.policy.request_spec import (
    BISECT,
    PRIORITIES,
    InvalidRequestError,
    ResolvedRequest,
)
from netbisect.steps.queries import request_answer
from netbisect.steps.queries.request_status import RequestQueries
from netbisect.steps.requests.validation import resolve_request
from netbisect.steps.service.numeric import histories
from netbisect.steps.service.rights import Right, User
from netbisect.steps.service.settings import MOST_BOOTS, Settings
from netbisect.steps.service.storage import open_history
from netbisect.store.db.records import JobRecord, Request
from netbisect.store.git.resolve import whereabouts
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.requests import TooManyError
from netbisect.workers.build.patches import PatchError, PatchStore
from netbisect.workers.config.lab import load_lab
from netbisect.workers.config.testbed import Testbed

_DAY = 86400.0
_HOUR = 3600.0
_HIGH = "high"


def cost_text(found: CostEstimate) -> str:
    """A cost as text, with the searches that follow comparisons."""
    rows = [("testbed", "builds", "boots", "reused", "time")]
    rows += [
        (
            *(one.testbed, str(len(one.builds)), str(one.boots), str(one.shared)),
            words.duration(one.seconds),
        )
        for one in found.testbeds
    ]
    searches = [
        f"{one.testbed}: if the ends differ, about {words.count(one.search.boots, 'boot')}, "
        f"{words.count(one.search.builds, 'build')} and {words.duration(one.search.seconds)} for "
        f"the search among {words.count(one.search.commits, 'commit')} and its verification"
        for one in found.testbeds
        if one.search is not None
    ]
    builders = f"Builds: {words.duration(found.build_seconds)}"
    return "\n".join([table(rows, indent=0), builders, *searches])


class RequestService(RequestQueries):
    """Reads, submits, estimates and changes requests."""

    @classmethod
    def of(cls, ledger: Ledger, settings: Settings) -> Self:
        """Reads the lab file. Raises FileError."""
        lab = load_lab(settings.lab)
        return cls(ledger, settings, lab, open_history(settings, lab))

    def ask(self, user: User, body: AskBody) -> Request:
        """Submits a request.

        Raises InvalidRequestError for wrong fields, no drop to search, and too many requests;
        MissingRightError; StoreError.
        """
        resolved = self._resolve(user, body)
        jobs = self._jobs(resolved)
        ends = {(one.good, one.bad) for one in jobs if isinstance(one, CompareJob)}
        if len(ends) == 1:  # of a bad end alone, testbeds may have several good ends
            resolved = replace(resolved, subjects=ends.pop())
        store = PatchStore(self.settings.patches)
        try:
            for patch in resolved.patches:
                store.put(patch)
        except PatchError as error:
            raise InvalidRequestError({"patches": str(error)}) from error
        except OSError as error:
            raise InvalidRequestError({"patches": f"cannot be stored: {error.strerror}"}) from error
        self._store_commits(resolved)
        estimate = self._estimate(resolved, jobs)
        names = [self.ledger.commits.label(one) for one in resolved.subjects]
        try:
            return self.ledger.requests.open(
                body.kind,
                _as_json(resolved),
                jobs,
                who=user.name,
                address=body.address,
                via=user.via,
                priority=PRIORITIES[body.priority],
                most_open=self.settings.requests.open_per_person,
                mail=lambda number: requests.confirmation(
                    number, body.kind, names, estimate, self.settings.request_address(number)
                ),
            )
        except TooManyError as error:
            raise InvalidRequestError({"who": str(error)}) from error

    def estimate(self, user: User, body: AskBody) -> CostEstimate:
        """Estimates the cost, without writing anything; raises as `ask`."""
        resolved = self._resolve(user, body)
        return self._estimate(resolved, self._jobs(resolved))

    def _resolve(self, user: User, body: AskBody) -> ResolvedRequest:
        user.require(Right.ASK, "asking")
        if body.priority == _HIGH:
            user.require(Right.PRIORITY, "priority high")
        return resolve_request(body, user, self.history, self.settings, self.lab)

    def _store_commits(self, resolved: ResolvedRequest) -> None:
        """Stores the commits; only those of the branch have a place in its series."""
        on_branch = [
            one
            for one in resolved.commits
            if resolved.branch in whereabouts(self.history, one.revision).branches
        ]
        self.ledger.commits.learn([*on_branch, *resolved.range], resolved.branch)
        self.ledger.commits.know([one for one in resolved.commits if one not in on_branch])

    def _jobs(self, resolved: ResolvedRequest) -> list[MeasureJob | CompareJob]:
        return [
            self._job(resolved, self.lab.testbed(name), scenarios)
            for name, scenarios in resolved.testbeds.items()
        ]

    def _job(
        self, resolved: ResolvedRequest, testbed: Testbed, scenarios: tuple[str, ...]
    ) -> MeasureJob | CompareJob:
        if resolved.body.kind == BISECT:
            return self._search(resolved, testbed, scenarios)
        shared = self.ledger.clock() - self.settings.requests.share_days * _DAY
        return MeasureJob(
            branch=resolved.branch,
            testbed=testbed.name,
            revisions=resolved.subjects,
            scenarios=scenarios,
            boots=resolved.boots,
            min_effect=resolved.margin,
            noise={one: self._noise(testbed, one, resolved.branch) for one in scenarios},
            shared_since=math.inf if resolved.body.fresh else shared,
        )

    def _noise(self, testbed: Testbed, scenario: str, branch: str) -> Noise:
        levels = self.ledger.series.levels(testbed.name, scenario, branch)
        return bisections.noise_of(levels, testbed)

    def _search(
        self, resolved: ResolvedRequest, testbed: Testbed, scenarios: tuple[str, ...]
    ) -> CompareJob:
        """A search begins with a comparison of its ends."""
        lead, bad = scenarios[0], resolved.subjects[-1]
        named = len(resolved.subjects) > 1
        good = resolved.subjects[0] if named else self._last_good(resolved, testbed, lead)
        return CompareJob(
            branch=resolved.branch,
            testbed=testbed.name,
            good=good,
            bad=bad,
            scenarios=scenarios,
            lead=lead,
            suspected=-resolved.margin,
            commits=len(resolved.range) or len(self.history.stretch(good, bad)) - 1,
            min_effect=resolved.margin,
            noise=self._noise(testbed, lead, resolved.branch),
        )

    def _last_good(self, resolved: ResolvedRequest, testbed: Testbed, scenario: str) -> str:
        """The last measured revision before the last drop; InvalidRequestError if none is known."""
        bad = next(one for one in resolved.commits if one.revision == resolved.subjects[-1])
        numbers = self.ledger.commits.numbers().get(resolved.branch, {})
        levels = [
            level
            for level in self.ledger.series.levels(testbed.name, scenario, resolved.branch)
            if numbers.get(level.revision, bad.number + 1) <= bad.number
        ]
        steps = histories.analyze(levels, resolved.margin).steps
        drops = [one for one in steps if one.ln_ratio < 0]
        if not drops:
            raise InvalidRequestError(
                {
                    "subjects": f"{scenario} on {testbed.name} shows no drop up to {bad.label}, "
                    "to search; expected a range A..B"
                }
            )
        return drops[-1].earliest

    def _estimate(
        self, resolved: ResolvedRequest, jobs: Sequence[MeasureJob | CompareJob]
    ) -> CostEstimate:
        found, builds = [], {}
        for job in jobs:
            testbed = self.lab.testbed(job.testbed)
            prices = self.ledger.costs.prices(testbed.name)
            record = JobRecord.of(job, id=0, key="", priority=0, requested_by="", opened_at=0.0)
            one = cost_of(job, self.kernels.evidence(self.ledger, record), prices)
            runs = 2 if resolved.body.repeat else 1
            boots = one.boots + (runs - 1) * (one.boots + one.shared)
            trial = price_of_trial(job, prices)
            search = search_cost(job.commits, trial) if isinstance(job, CompareJob) else None
            found.append(replace(one, boots=boots, seconds=boots * trial, search=search))
            for name in one.builds:
                config = self.kernels.config_of(testbed, job.branch, name)
                builds[config, testbed.arch, name] = prices.build
        return CostEstimate(testbeds=tuple(found), build_seconds=sum(builds.values()))

    def cancel(self, user: User, number: int, body: CancelBody) -> None:
        """Cancels a request and its queued work. Raises MissingRightError and StoreError."""
        self._check_owner(user, number, "cancelling a request")
        why = body.why or f"cancelled by {user.name}"
        mail = self._news(number, f"{user.name} has cancelled request {number}: {why}.")
        self.ledger.requests.cancel(number, who=user.name, via=user.via, why=why, mail=mail)

    def resume(self, user: User, number: int, _: ResumeBody) -> None:
        """Resumes a cancelled request. Raises MissingRightError and StoreError."""
        self._check_owner(user, number, "resuming a request")
        mail = self._news(number, f"{user.name} has resumed request {number}.")
        most_open = self.settings.requests.open_per_person
        self.ledger.requests.resume(
            number, who=user.name, via=user.via, most_open=most_open, mail=mail
        )

    def extend(self, user: User, number: int, body: ExtendBody) -> None:
        """Adds boots per revision, or hours of a search.

        Raises InvalidRequestError for the wrong kind of request, or too much; MissingRightError;
        StoreError if the request is unknown or cancelled.
        """
        self._check_owner(user, number, "extending a request")
        boots, hours = body.boots, body.hours
        kind = self.ledger.requests.get(number).kind
        longest = 10 * self.settings.requests.hours
        if kind == BISECT and (boots or not 0 < hours <= longest):
            message = f"a search is extended by hours, more than 0 and at most {longest:g}"
            raise InvalidRequestError({"hours": message})
        if kind != BISECT:
            jobs = [one.job for one in self.ledger.requests.jobs(number)]
            boots_now = [one.boots for one in jobs if isinstance(one, MeasureJob)]
            most = MOST_BOOTS - max(boots_now, default=0)
            if hours or not 1 <= boots <= most:
                message = f"a measurement is extended by boots, 1 to {most}"
                raise InvalidRequestError({"boots": message})

        def more(job: Job) -> Job | None:
            if isinstance(job, MeasureJob) and boots:
                return replace(job, boots=job.boots + boots)
            if isinstance(job, BisectJob) and hours:
                return replace(job, budget_seconds=job.budget_seconds + hours * _HOUR)
            return None

        data = {"boots": boots} if boots else {"hours": hours}
        amount = f"{words.count(boots, 'boot')} of each revision" if boots else f"{hours:g} hours"
        mail = self._news(number, f"{user.name} has extended request {number}: {amount}.")
        self.ledger.requests.extend(
            number,
            more,
            who=user.name,
            via=user.via,
            most_open=self.settings.requests.open_per_person,
            data=data,
            mail=mail,
        )

    def priority(self, user: User, number: int, body: PriorityBody) -> None:
        """Changes the priority. Raises MissingRightError and StoreError."""
        self._check_owner(user, number, "changing the priority of a request")
        if body.priority == _HIGH:
            user.require(Right.PRIORITY, "priority high")
        headline = f"{user.name} has changed the priority of request {number} to {body.priority}."
        self.ledger.requests.set_priority(
            number,
            PRIORITIES[body.priority],
            who=user.name,
            via=user.via,
            mail=self._news(number, headline),
        )

    def _check_owner(self, user: User, number: int, action: str) -> None:
        user.require_owner(self.ledger.requests.get(number).who, action)

    def _news(self, request: int, headline: str) -> Mail:
        return request_answer.news(self.ledger, self.settings, request, headline)


def _as_json(resolved: ResolvedRequest) -> dict[str, object]:
    """The stored form of a request."""
    body = resolved.body
    return {
        "asked": list(body.subjects),
        "subjects": list(resolved.subjects),
        "patches": [patch.mark for patch in resolved.patches],
        "branch": resolved.branch,
        "testbeds": {name: list(scenarios) for name, scenarios in resolved.testbeds.items()},
        "boots": resolved.boots,
        "runs": 2 if body.repeat else 1,
        "fresh": body.fresh,
        "margin_percent": -100 * math.expm1(-resolved.margin),
        "hours": resolved.hours,
    }
