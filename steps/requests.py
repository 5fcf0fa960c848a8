"""Requests: what people can do with the lab. Commands, forms and the API all end here.

    ask       a wish becomes a request with a question for each testbed
    estimate  what it would cost; nothing is written
    cancel, resume, extend, prioritise

Everything here is synchronous and for the ledger's thread; each writes one transaction, and a line
of the audit log with who did it and which way it came.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from netbisect.bisect import detect
from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Evidence,
    Measurement,
    Noise,
    Question,
)
from netbisect.reports import requests as telling
from netbisect.reports import words
from netbisect.steps import request_answer as answers
from netbisect.steps import searches
from netbisect.steps.kernels import Kernels
from netbisect.steps.request_cost import OnTestbed, cost_of, ends_of
from netbisect.steps.settings import MOST_BOOTS, Settings
from netbisect.steps.wish import BISECT, PRIORITIES, Plan, Wish, WishError
from netbisect.steps.wishes import near, plan
from netbisect.store.history import History
from netbisect.store.ledger import Ledger
from netbisect.store.records import Request
from netbisect.store.requests import Part, TooManyError
from netbisect.store.revisions import whereabouts
from netbisect.workers.lab import Lab, Testbed
from netbisect.workers.patches import PatchError, PatchStore

_DAY = 86400.0
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a wish costs."""

    testbeds: tuple[OnTestbed, ...]
    build_seconds: float
    """Of builders; each kernel once."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where people ask."""

    ledger: Ledger
    history: History
    settings: Settings
    lab: Lab

    # ---------------------------------------------------------------------------------- asking

    def ask(self, wish: Wish) -> Request:
        """Asks the lab; the request has its number and its questions.

        Raises:
            WishError: something of it cannot be granted: a sentence for each field.
            StoreError: the ledger refused.
        """
        return self.ask_plan(plan(wish, self.history, self.settings, self.lab))

    def ask_plan(self, meant: Plan) -> Request:
        """As `ask`, when it is known what the wish means; it waits for no review server.

        Raises:
            WishError: there is no drop to be searched, or this person has too many requests.
            StoreError: the ledger refused.
        """
        wish, parts = meant.wish, self._parts(meant)
        store = PatchStore(self.settings.patches)
        try:
            for patch in meant.patches:
                store.put(patch)
        except PatchError as error:
            raise WishError({"patches": str(error)}) from error
        except OSError as error:
            raise WishError({"patches": f"it cannot be kept: {error.strerror}"}) from error
        self._learn(meant)
        told = self._estimate(meant, parts)
        names = [self.ledger.label(one) for one in meant.subjects]
        try:
            return self.ledger.open_request(
                wish.kind,
                _as_json(meant),
                parts,
                who=wish.who,
                address=wish.address,
                via=wish.via,
                priority=PRIORITIES[wish.priority],
                most_open=self.settings.requests.open_per_person,
                letter=lambda number: telling.confirmation(
                    telling.Head(number, wish.kind, tuple(names), tuple(meant.testbeds)),
                    sum(one.boots for one in told.testbeds),
                    max(one.seconds for one in told.testbeds) + told.build_seconds,
                    self.settings.request_address(number),
                ),
            )
        except TooManyError as error:
            raise WishError({"who": str(error)}) from error

    def estimate(self, wish: Wish) -> Estimate:
        """What a wish would cost; nothing is written.

        Raises:
            WishError: it cannot be granted.
        """
        meant = plan(wish, self.history, self.settings, self.lab)
        return self._estimate(meant, self._parts(meant))

    def _learn(self, meant: Plan) -> None:
        """Commits of the branch have a place in its series; others are only known by name."""
        on_branch = [
            one
            for one in meant.commits
            if meant.branch in whereabouts(self.history, one.revision).branches
        ]
        self.ledger.learn([*on_branch, *meant.range], meant.branch)
        self.ledger.know([one for one in meant.commits if one not in on_branch])

    def _parts(self, meant: Plan) -> list[Part]:
        return [
            Part(self._question(meant, self.lab.testbed(name), scenarios))
            for name, scenarios in meant.testbeds.items()
        ]

    def _question(self, meant: Plan, testbed: Testbed, scenarios: tuple[str, ...]) -> Question:
        if meant.wish.kind == BISECT:
            return self._search(meant, testbed, scenarios)
        shared = self.ledger.clock() - self.settings.requests.share_days * _DAY
        return Measurement(
            branch=meant.branch,
            testbed=testbed.name,
            revisions=meant.subjects,
            scenarios=scenarios,
            boots=meant.boots,
            min_effect=meant.margin,
            noise={one: self._noise(testbed, one, meant.branch) for one in scenarios},
            shared_since=math.inf if meant.wish.fresh else shared,
        )

    def _noise(self, testbed: Testbed, scenario: str, branch: str) -> Noise:
        levels = self.ledger.series(testbed.name, scenario, branch)
        return searches.noise_of(levels, testbed)

    def _search(self, meant: Plan, testbed: Testbed, scenarios: tuple[str, ...]) -> Comparison:
        """A search begins with its ends: without a drop between them there is nothing to find."""
        lead, bad = scenarios[0], meant.subjects[-1]
        good = meant.subjects[0] if len(meant.subjects) > 1 else ""
        return Comparison(
            branch=meant.branch,
            testbed=testbed.name,
            good=good or self._last_good(meant, testbed, lead),
            bad=bad,
            scenarios=scenarios,
            lead=lead,
            suspected=-meant.margin,
            min_effect=meant.margin,
            noise=self._noise(testbed, lead, meant.branch),
        )

    def _last_good(self, meant: Plan, testbed: Testbed, scenario: str) -> str:
        """The last revision that was measured before the last drop up to the bad end.

        Raises:
            WishError: no such drop is known.
        """
        bad = next(one for one in meant.commits if one.revision == meant.subjects[-1])
        numbers = self.ledger.numbers().get(meant.branch, {})
        levels = [
            level
            for level in self.ledger.series(testbed.name, scenario, meant.branch)
            if numbers.get(level.revision, bad.number + 1) <= bad.number
        ]
        drops = [one for one in detect.steps(levels, meant.margin) if one.ln_ratio < 0]
        if not drops:
            raise WishError(
                {
                    "subjects": f"{scenario} on {testbed.name} shows no drop up to {bad.label}, "
                    "after which to search: a range A..B with its good end would be right"
                }
            )
        return drops[-1].earliest

    # ------------------------------------------------------------------------------- the price

    def _estimate(self, meant: Plan, parts: list[Part]) -> Estimate:
        kernels = Kernels(self.lab, self.history)
        found, builds = [], {}
        for part in parts:
            testbed = self.lab.testbed(part.question.testbed)
            prices = self.ledger.prices(testbed.name)
            evidence = self._evidence(part.question, testbed, kernels)
            one = cost_of(part.question, evidence, prices)
            runs = 2 if meant.wish.repeat else 1
            boots = one.boots + (runs - 1) * (one.boots + one.shared)
            visit = prices.boot + prices.run * len(part.question.scenarios)
            found.append(replace(one, boots=boots, seconds=boots * visit))
            builds.update(
                {
                    (kernels.config_of(testbed, name), testbed.arch, name): prices.build
                    for name in one.builds
                }
            )
        return Estimate(tuple(found), sum(builds.values()))

    def _evidence(self, question: Question, testbed: Testbed, kernels: Kernels) -> Evidence:
        revisions = ends_of(question)
        variants = {name: kernels.config_of(testbed, name) for name in revisions}
        return self.ledger.evidence_ahead(
            question, config=testbed.kernel_config, arch=testbed.arch, variants=variants
        )

    # -------------------------------------------------------------------------------- changing

    def cancel(self, request: int, *, who: str, via: str = "command", why: str = "") -> Request:
        """Stops a request; what it has ordered is taken back, and can be resumed later.

        Raises:
            StoreError: there is none, or it is over.
        """
        said = why or f"cancelled by {who}"
        letter = self._news(request, f"{who} has cancelled request {request}: {said}.")
        return self.ledger.cancel_request(request, who=who, via=via, why=said, letter=letter)

    def resume(self, request: int, *, who: str, via: str = "command") -> Request:
        """Goes on with a request that was cancelled.

        Raises:
            StoreError: there is none, it was not cancelled, or it is still being taken back.
        """
        letter = self._news(request, f"{who} goes on with request {request}.")
        return self.ledger.resume_request(request, who=who, via=via, letter=letter)

    def extend(
        self,
        request: int,
        *,
        who: str,
        boots: int = 0,
        hours: float = 0.0,
        via: str = "command",
    ) -> Request:
        """Asks for more boots of each revision, or for more hours of a search.

        Raises:
            WishError: it is not for such a request, or too much.
            StoreError: there is no such request, or it was cancelled.
        """
        kind = self.ledger.request(request).kind
        if kind == BISECT and (boots or not 0 < hours <= 10 * self.settings.requests.hours):
            raise WishError({"hours": "a search takes hours of the lab, such as --hours 12"})
        if kind != BISECT:
            most = max(
                (
                    one.question.boots
                    for one in self.ledger.parts_of(request)
                    if isinstance(one.question, Measurement)
                ),
                default=0,
            )
            if hours or not 1 <= boots <= MOST_BOOTS - most:
                raise WishError(
                    {"boots": f"+{boots}; 1 to {MOST_BOOTS - most} more would be right"}
                )

        def more(question: Question) -> Question | None:
            if isinstance(question, Measurement) and boots:
                return replace(question, boots=question.boots + boots)
            if isinstance(question, Bisection) and hours:
                return replace(question, budget_seconds=question.budget_seconds + hours * _HOUR)
            return None

        data = {"boots": boots} if boots else {"hours": hours}
        much = f"{words.count(boots, 'boot')} of each revision" if boots else f"{hours:g} hours"
        letter = self._news(request, f"{who} has asked for more of request {request}: {much}.")
        return self.ledger.extend_request(request, more, who=who, via=via, data=data, letter=letter)

    def prioritise(self, request: int, priority: str, *, who: str, via: str = "command") -> Request:
        """Gives a request another priority.

        Raises:
            WishError: there is no such priority.
            StoreError: there is no such request, or it is over.
        """
        if priority not in PRIORITIES:
            known = near(priority, PRIORITIES)
            raise WishError({"priority": f"there is no {priority!r}{known}"})
        letter = self._news(request, f"{who} has given request {request} priority {priority}.")
        number = PRIORITIES[priority]
        return self.ledger.prioritise(request, number, who=who, via=via, letter=letter)

    def _news(self, request: int, said: str) -> tuple[str, str]:
        return answers.news(self.ledger, self.settings, request, said)


def _as_json(meant: Plan) -> dict[str, object]:
    """A plan as the ledger keeps it."""
    wish = meant.wish
    return {
        "asked": list(wish.subjects),
        "subjects": list(meant.subjects),
        "patches": [patch.mark for patch in meant.patches],
        "branch": meant.branch,
        "testbeds": {name: list(scenarios) for name, scenarios in meant.testbeds.items()},
        "boots": meant.boots,
        "runs": 2 if wish.repeat else 1,
        "fresh": wish.fresh,
        "margin_percent": -100 * math.expm1(-meant.margin),
        "hours": meant.hours,
    }
