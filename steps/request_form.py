"""Asking by form: Buildbot's own, one for each kind of request, on a builder of their own.

Who sends one is granted or refused what the API would grant or refuse; nothing is built then. The
build that follows runs nowhere but in the master, and leads to the request.
"""

from __future__ import annotations

from typing import Any

from buildbot.config import BuilderConfig
from buildbot.plugins import util
from buildbot.process.buildstep import BuildStep
from buildbot.process.factory import BuildFactory
from buildbot.process.results import SUCCESS
from buildbot.schedulers.forcesched import (
    CollectedValidationError,
    ForceScheduler,
    ValidationErrorCollector,
)
from buildbot.worker.local import LocalWorker
from twisted.internet import defer

from netbisect.reports import api, documents, openapi, words
from netbisect.reports import requests as telling
from netbisect.steps import web_settings
from netbisect.steps.api_bodies import BodyError
from netbisect.steps.api_calls import Calls
from netbisect.steps.login import user_rights
from netbisect.steps.memory import Memory, history_of
from netbisect.steps.requests import Desk
from netbisect.steps.rights import Person, RightError
from netbisect.steps.settings import MOST_BOOTS, Settings
from netbisect.steps.wish import BISECT, COMPARE, KINDS, PRIORITIES, WishError
from netbisect.store.database import StoreError
from netbisect.store.history import HistoryError
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import Lab

BUILDER, WORKER = "ask", "desk"
TOLD, NUMBER = "told", "request"
"""Properties of the build: what there is to say, and the number of the request."""
_SUBJECTS = "subjects"
_BRANCH = "branch_name"
"""`branch` is a field that every form of Buildbot has, hidden here."""
_LABELS = {
    "subjects": "Revisions, with blanks between them: r311849, main~5, n302145, main+D5180, D5180",
    "range": "Range A..B, or its bad end alone: the good one is then found in what was measured",
    "diff": "A diff, pasted: one more revision, the first one above with it",
    "testbeds": "Testbeds",
    "scenarios": "Scenarios, the leading one first; none for the testbed's first, all for all",
    "branch": "Branch, where numbers and days are counted",
    "boots": f"Boots of each revision, 1 to {MOST_BOOTS}; 0 for as many as is usual here",
    "repeat": "A second run with boots of its own, held against the first",
    "fresh": "Boots that were made for others do not count",
    "margin_percent": "A drop that matters, in percent; empty for what is usual here",
    "hours": "Hours of the lab that the search may take; empty for what is usual here",
    "priority_level": "Priority; nights come between low and normal, high needs the right to it",
    "address": "Where the answer is mailed to; empty for nowhere",
    "dry_run": "Only say what it would cost",
}
_TITLES = {
    COMPARE: "Compare two revisions, or one with and without a patch",
    BISECT: "Find the commit that made it slower",
    "series": "Measure revisions and patches side by side",
}


def offered(settings: Settings) -> bool:
    """Whether there are forms: without logins nobody could send one."""
    return settings.web.login.kind != web_settings.NOBODY


def forms(settings: Settings, lab: Lab) -> list[ForceScheduler]:
    """A form for each kind of request."""
    if not offered(settings):
        return []
    return [
        RequestForm(name=f"ask-{kind}", kind=kind, settings=settings, lab=lab) for kind in KINDS
    ]


def desk(settings: Settings) -> tuple[list[LocalWorker], list[BuilderConfig]]:
    """What the builds of forms need: a worker within the master, and a builder."""
    if not offered(settings):
        return [], []
    builder = BuilderConfig(
        name=BUILDER,
        description="asks the lab for comparisons, searches and series",
        workernames=[WORKER],
        factory=BuildFactory([Receipt(settings)]),
        collapseRequests=False,
        tags=["ask"],
    )
    # It is never missing where the master is.
    return [LocalWorker(WORKER, missing_timeout=0)], [builder]


class Receipt(BuildStep):
    """Says what was asked for, and leads there."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        super().__init__(name="receipt")

    async def run(self) -> int:
        await self.addCompleteLog("what was asked", str(self.getProperty(TOLD)))
        number = self.getProperty(NUMBER)
        if number:
            address = f"{self.settings.web.url}{openapi.PREFIX}/requests/{number}"
            await self.addURL(f"request {number}", self.settings.request_address(number))
            await self.addURL("as JSON", address)
        self.descriptionDone = [f"request {number}" if number else "told what it would cost"]
        return SUCCESS


class RequestForm(ForceScheduler):
    """The form of one kind of request."""

    compare_attrs = ("kind", "settings", "lab")

    def __init__(self, *, name: str, kind: str, settings: Settings, lab: Lab) -> None:
        self.kind = kind
        self.settings = settings
        self.lab = lab
        self._asking = Memory(settings)
        fixed = {
            part: util.FixedParameter(name=part, default="", hide=True)
            for part in ("branch", "revision", "repository", "project")
        }
        super().__init__(
            name,
            builderNames=[BUILDER],
            buttonName=kind,
            label=_TITLES[kind],
            reason=util.FixedParameter(name="reason", default=f"{kind} by form", hide=True),
            username=util.FixedParameter(name="username", default="", hide=True),
            priority=util.IntParameter(name="priority", default=0, hide=True),
            codebases=[util.CodebaseParameter(codebase="", hide=True, **fixed)],
            properties=_fields(kind, settings, lab),
        )

    @defer.inlineCallbacks
    def force(
        self, owner: str, builderNames: Any = None, builderid: Any = None, **kwargs: Any
    ) -> Any:
        """Asks the lab; whichever builders are named, only that of the forms is used.

        Raises:
            CollectedValidationError: a sentence for each field that is wrong.
        """
        given = {key: one if isinstance(one, list) else [one] for key, one in kwargs.items()}
        collector = ValidationErrorCollector()
        properties, _, _ = yield self.gatherPropertiesAndChanges(collector, **given)
        collector.maybeRaiseCollectedErrors()
        values = {name: value for name, (value, _) in properties.asDict().items()}
        told = yield defer.ensureDeferred(
            self._asking.do(lambda ledger: self._ask(ledger, owner, values))
        )
        properties.setProperty(TOLD, _text(told), "form")
        number = told.number if isinstance(told, documents.Request) else 0
        properties.setProperty(NUMBER, number, "form")
        properties.setProperty("owner", owner, "form")
        result = yield self.addBuildsetForSourceStampsWithDefaults(
            reason=f"{self.kind} asked for by {owner}",
            sourcestamps=[{"codebase": ""}],
            properties=properties,
            builderNames=[BUILDER],
        )
        return result

    def _ask(
        self, ledger: Ledger, owner: str, values: dict[str, Any]
    ) -> api.Cost | documents.Request:
        person = Person(owner, user_rights(self.settings, {"username": owner}), "form", "web")
        history = history_of(self.settings, self.lab)
        calls = Calls(Desk(ledger, history, self.settings, self.lab))
        with ledger.acting(person.origin):
            try:
                return calls.grant(person, _body(self.kind, values))
            except (WishError, RightError, BodyError, StoreError, HistoryError) as error:
                calls.refused(person, person.origin, "ask", str(error), None)
                faults = getattr(error, "faults", {_SUBJECTS: str(error)})
                raise CollectedValidationError(_on_form(faults, values)) from error


def _fields(kind: str, settings: Settings, lab: Lab) -> list[Any]:
    names = [testbed.name for testbed in lab.testbeds]
    text, number, yes = util.StringParameter, util.IntParameter, util.BooleanParameter
    subjects = _LABELS["range" if kind == BISECT else "subjects"]
    fields = [
        text(name=_SUBJECTS, label=subjects, size=80, maxsize=2000, required=kind == BISECT),
    ]
    if kind != BISECT:
        most = openapi.MOST_PATCH_BYTES
        # A text: the pages show no field for files.
        fields.append(
            util.TextParameter(name="diff", label=_LABELS["diff"], cols=80, rows=8, maxsize=most)
        )
    fields += [
        util.ChoiceStringParameter(
            name="testbeds",
            label=_LABELS["testbeds"],
            choices=names,
            default=names[0],
            multiple=True,
            strict=True,
        ),
        text(name="scenarios", label=_LABELS["scenarios"], size=80, maxsize=2000),
        util.ChoiceStringParameter(
            name=_BRANCH,
            label=_LABELS["branch"],
            choices=list(settings.branches),
            default=settings.branches[0],
            strict=True,
        ),
    ]
    if kind == BISECT:
        fields.append(text(name="hours", label=_LABELS["hours"], size=8, maxsize=20))
    else:
        fields += [
            number(name="boots", label=_LABELS["boots"], default=0, maxsize=4),
            yes(name="repeat", label=_LABELS["repeat"], default=False),
            yes(name="fresh", label=_LABELS["fresh"], default=False),
        ]
    return [
        *fields,
        text(name="margin_percent", label=_LABELS["margin_percent"], size=8, maxsize=20),
        util.ChoiceStringParameter(
            name="priority_level",
            label=_LABELS["priority_level"],
            choices=list(PRIORITIES),
            default="normal",
            strict=True,
        ),
        text(name="address", label=_LABELS["address"], size=40, maxsize=200),
        yes(name="dry_run", label=_LABELS["dry_run"], default=False),
    ]


def _body(kind: str, values: dict[str, Any]) -> api.AskBody:
    """What the form says, as the API would be sent it.

    Raises:
        WishError: a number is none.
    """
    testbeds = values["testbeds"]
    diff = values.get("diff") or ""
    return api.AskBody(
        kind=kind,  # type: ignore[arg-type] # the forms are of these kinds
        subjects=tuple(str(values[_SUBJECTS]).split()),
        patches=(api.PatchBody(diff=diff),) if diff else (),
        testbeds=tuple([testbeds] if isinstance(testbeds, str) else testbeds),
        scenarios=tuple(str(values["scenarios"]).split()),
        branch=values[_BRANCH],
        boots=values.get("boots") or None,
        repeat=values.get("repeat", False),
        fresh=values.get("fresh", False),
        margin_percent=_number(values, "margin_percent"),
        hours=_number(values, "hours"),
        priority=values["priority_level"],
        address=str(values["address"]).strip(),
        dry_run=values["dry_run"],
    )


def _number(values: dict[str, Any], name: str) -> float | None:
    text = str(values.get(name) or "").strip().removesuffix("%")
    try:
        return float(text) if text else None
    except ValueError as error:
        raise WishError({name: f"{text!r} is no number, such as 1.5"}) from error


def _on_form(faults: dict[str, str], values: dict[str, Any]) -> dict[str, str]:
    """Each sentence at a field that the form has."""
    renamed = {"priority": "priority_level", "patches": "diff", "branch": _BRANCH}
    placed: dict[str, str] = {}
    for name, said in faults.items():
        place = renamed.get(name, name)
        place = place if place in values else _SUBJECTS
        placed[place] = f"{placed[place]}; {said}" if place in placed else said
    return placed


def _text(told: api.Cost | documents.Request) -> str:
    if isinstance(told, documents.Request):
        return telling.as_text(told)
    return "\n".join(
        [
            *(
                f"{one.testbed}: {words.count(len(one.builds), 'build')}, "
                f"{words.count(one.boots, 'boot')}, {one.shared} made already, "
                f"{words.duration(one.seconds)}"
                for one in told.testbeds
            ),
            f"and {words.duration(told.build_seconds)} of builders",
        ]
    )
