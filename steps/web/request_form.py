"""Request forms: force schedulers of a separate builder, one per kind of request.

A form submits the request with the same checks as the API. The build that follows only links to it;
it runs in the master.
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
from buildbot.util.twisted import async_to_deferred
from buildbot.worker.local import LocalWorker

from netbisect.reports.documents import api, openapi
from netbisect.reports.model import types
from netbisect.reports.pages import requests
from netbisect.steps.policy.request_spec import (
    BISECT,
    COMPARE,
    KINDS,
    PRIORITIES,
    InvalidRequestError,
)
from netbisect.steps.requests.api import REFUSALS, log_refusal, write
from netbisect.steps.requests.service import RequestService, cost_text
from netbisect.steps.service import web_settings
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.rights import User
from netbisect.steps.service.settings import MOST_BOOTS, Settings
from netbisect.steps.web.login import user_rights
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

BUILDER, WORKER = "ask", "desk"
REPLY, NUMBER = "reply", "request"
"""Properties of the build: text of the reply, and number of the request."""
_SUBJECTS = "subjects"
_BRANCH = "branch_name"
"""Every form of Buildbot has a field `branch`, which is hidden here."""
_LABELS = {
    "subjects": "Revisions, separated by blanks: r311849, main~5, n302145, main+D5180, D5180",
    "range": "Range A..B, or B alone; the good end is then taken from earlier measurements",
    "diff": "Diff, applied to the first revision above: one more revision",
    "testbeds": "Testbeds",
    "scenarios": "Scenarios, the leading one first; default: the testbed's first",
    _BRANCH: "Branch, for numbers and dates",
    "boots": f"Boots per revision, 1 to {MOST_BOOTS}; 0: default",
    "repeat": "Repeat with new boots, and compare both runs",
    "fresh": "Ignore boots of other requests",
    "margin_percent": "Relevant drop in percent; empty: default",
    "hours": "Lab hours of the search; empty: default",
    "priority_level": "Priority; nights are between low and normal; high needs its right",
    "address": "Mail address for the result",
    "dry_run": "Only estimate the cost",
}
_TITLES = {
    COMPARE: "Compare two revisions, or one with and without a patch",
    BISECT: "Find the commit that caused a drop",
    "series": "Compare several revisions and patches",
}


def forms_enabled(settings: Settings) -> bool:
    """Whether there are forms; they need logins."""
    return settings.web.login.kind != web_settings.NO_LOGIN


def make_forms(settings: Settings, lab: Lab) -> list[ForceScheduler]:
    """Returns one form per kind of request."""
    if not forms_enabled(settings):
        return []
    return [
        RequestForm(name=f"ask-{kind}", kind=kind, settings=settings, lab=lab) for kind in KINDS
    ]


def make_form_builder(settings: Settings) -> tuple[list[LocalWorker], list[BuilderConfig]]:
    """Returns the builder of the forms and its worker in the master."""
    if not forms_enabled(settings):
        return [], []
    builder = BuilderConfig(
        name=BUILDER,
        description="submits comparisons, searches and series",
        workernames=[WORKER],
        factory=BuildFactory([RequestReceipt(settings)]),
        collapseRequests=False,
        tags=["ask"],
    )
    return [LocalWorker(WORKER, missing_timeout=0)], [builder]


class RequestReceipt(BuildStep):
    """Shows the reply, and links to the request."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        super().__init__(name="receipt")

    async def run(self) -> int:
        await self.addCompleteLog("reply", str(self.getProperty(REPLY)))
        number = self.getProperty(NUMBER)
        if number:
            address = f"{self.settings.web.url}{openapi.PREFIX}/requests/{number}"
            await self.addURL(f"request {number}", self.settings.request_address(number))
            await self.addURL("as JSON", address)
        self.descriptionDone = [f"request {number}" if number else "estimated the cost"]
        return SUCCESS


class RequestForm(ForceScheduler):
    """The form of one kind of request."""

    compare_attrs = ("kind", "settings", "lab")

    def __init__(self, *, name: str, kind: str, settings: Settings, lab: Lab) -> None:
        self.kind = kind
        self.settings = settings
        self.lab = lab
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

    @async_to_deferred
    async def force(
        self, owner: str, builderNames: Any = None, builderid: Any = None, **kwargs: Any
    ) -> Any:
        """Submits the request; ignores the names of builders.

        Raises:
            CollectedValidationError: Messages by field.
        """
        given = {key: one if isinstance(one, list) else [one] for key, one in kwargs.items()}
        collector = ValidationErrorCollector()
        properties, _, _ = await self.gatherPropertiesAndChanges(collector, **given)
        collector.maybeRaiseCollectedErrors()
        values = {name: value for name, (value, _) in properties.asDict().items()}
        result = await database_thread(self.settings, slow=True).do(
            lambda ledger: self._ask(ledger, owner, values)
        )
        if isinstance(result, types.RequestDocument):
            number, reply = result.number, requests.as_text(result)
        else:
            number, reply = 0, cost_text(result)
        properties.setProperty(REPLY, reply, "form")
        properties.setProperty(NUMBER, number, "form")
        properties.setProperty("owner", owner, "form")
        return await self.addBuildsetForSourceStampsWithDefaults(
            reason=f"{self.kind} by {owner}",
            sourcestamps=[{"codebase": ""}],
            properties=properties,
            builderNames=[BUILDER],
        )

    def _ask(
        self, ledger: Ledger, owner: str, values: dict[str, Any]
    ) -> api.CostEstimate | types.RequestDocument:
        user = User(owner, user_rights(self.settings, {"username": owner}), "form", "web")
        service = RequestService.of(ledger, self.settings)
        try:
            return write(service, user, "ask", None, _body(self.kind, values))
        except REFUSALS as error:
            log_refusal(ledger, user, user.origin, "ask", str(error), None)
            faults = getattr(error, "faults", {_SUBJECTS: str(error)})
            raise CollectedValidationError(_on_form(faults, values)) from error


def _fields(kind: str, settings: Settings, lab: Lab) -> list[Any]:
    def field(parameter: Any, name: str, label: str = "", **options: Any) -> Any:
        return parameter(name=name, label=_LABELS[label or name], **options)

    def choice(name: str, choices: list[str], default: str = "", **options: Any) -> Any:
        options |= {"choices": choices, "default": default or choices[0], "strict": True}
        return field(util.ChoiceStringParameter, name, **options)

    text, number, yes = util.StringParameter, util.IntParameter, util.BooleanParameter
    large: dict[str, Any] = {"size": 80, "maxsize": 2000}
    places = [
        choice("testbeds", [testbed.name for testbed in lab.testbeds], multiple=True),
        field(text, "scenarios", **large),
        choice(_BRANCH, list(settings.branches)),
    ]
    if kind == BISECT:
        fields = [
            field(text, _SUBJECTS, "range", required=True, **large),
            *places,
            field(text, "hours", size=8, maxsize=20),
        ]
    else:
        most = openapi.MOST_PATCH_BYTES  # Buildbot's pages have no file fields
        fields = [
            field(text, _SUBJECTS, required=False, **large),
            field(util.TextParameter, "diff", cols=80, rows=8, maxsize=most),
            *places,
            field(number, "boots", default=0, maxsize=4),
            field(yes, "repeat", default=False),
            field(yes, "fresh", default=False),
        ]
    return [
        *fields,
        field(text, "margin_percent", size=8, maxsize=20),
        choice("priority_level", list(PRIORITIES), "normal"),
        field(text, "address", size=40, maxsize=200),
        field(yes, "dry_run", default=False),
    ]


def _body(kind: str, values: dict[str, Any]) -> api.AskBody:
    """Converts the form to a body of the API. Raises InvalidRequestError."""
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
        raise InvalidRequestError({name: f"{text!r}: expected a number such as 1.5"}) from error


def _on_form(faults: dict[str, str], values: dict[str, Any]) -> dict[str, str]:
    """Assigns the messages to fields of the form."""
    renamed = {"priority": "priority_level", "patches": "diff", "branch": _BRANCH}
    placed: dict[str, str] = {}
    for name, message in faults.items():
        place = renamed.get(name, name)
        place = place if place in values else _SUBJECTS
        placed[place] = f"{placed[place]}; {message}" if place in placed else message
    return placed
