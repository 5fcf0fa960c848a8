"""What happens in the lab, a line each, for people who watch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from netbisect.reports import picture, words
from netbisect.store.ledger import Ledger
from netbisect.store.records import Event

Data = dict[str, Any]

_ENDS = {
    "nightdone": "measured",
    "confirmed": "the difference is there",
    "notconfirmed": "the difference did not come back",
    "culprit": "the commit is verified",
    "several": "several commits are verified",
    "suspects": "a few commits remain",
    "drift": "it changed bit by bit",
    "notreproduced": "nothing changed in this range",
    "profiled": "there are profiles",
    "measured": "measured as often as asked",
    "unfinished": "no answer",
}

_TOLD: dict[str, Callable[[str, Data], tuple[str, str]]] = {
    "kernel": lambda name, data: ("build", f"{name}  {words.elapsed(data['seconds'])}"),
    "boot": lambda name, data: ("boot", f"{name}  up after {words.elapsed(data['seconds'])}"),
    "sample": lambda name, data: ("run", f"{name}  {data['scenario']}  {_rate(data)}"),
    "dud": lambda name, data: (data["stage"], f"{name}  {words.clean(data['why'])}"),
    "asked": lambda _, data: (data["kind"], "begins"),
    "decided": lambda name, data: ("next", f"{name}  {words.clean(data['why'])}{_tries(data)}"),
    "closed": lambda _, data: (data["kind"], f"ends: {_ENDS[data['finding']]}"),
    "mail": lambda _, data: ("mail", f"{data['state']}: {data['subject']}"),
    "quarantine": lambda _, data: ("quarantine", words.clean(data["why"])),
    "release-asked": lambda _, data: ("quarantine", f"{data['by']} asks for its release"),
    "release-refused": lambda _, data: ("quarantine", f"stays: {words.clean(data['why'])}"),
    "released": lambda _, data: ("quarantine", f"released by {words.clean(data['by'])}"),
    "request": lambda _, data: (
        "request",
        f"{data['request'] or ''}  {data['what']} by {words.clean(data['who'])}".strip(),
    ),
    "import": lambda _, data: ("import", f"{data['facts']:,} facts from {data['source']}"),
}
"""By kind of event: what it is and what is said of it; other kinds are of no interest here."""


def lines(ledger: Ledger, events: list[Event]) -> list[str]:
    """Some events as lines of text, with a posterior as a picture where one was formed."""
    told = []
    for event in events:
        if event.kind not in _TOLD:
            continue
        data = event.data
        where = data.get("testbed") or data.get("target") or data.get("arch") or ""
        if event.kind == "closed":
            where = data["key"].split(":")[2]
        what, text = _TOLD[event.kind](ledger.label(data.get("revision", "")), data)
        when = time.strftime("%H:%M:%S", time.gmtime(event.at))
        told.append(f"{when}  {where:<12} {what:<10}  {text}".rstrip())
        if event.kind == "decided":
            told += _narrower(ledger, data["decision"])
    return told


def _narrower(ledger: Ledger, decision: int) -> list[str]:
    """The posterior behind a decision, unless it is the one behind the last decision."""
    made = ledger.decision(decision)
    before = [one for one in ledger.decisions(made.question) if one.id < decision]
    if made.belief is None or (before and before[-1].belief == made.belief):
        return []
    return picture.posterior(made.belief, ledger.label)


def _tries(data: Data) -> str:
    return f" (try {data['attempt']})" if data["attempt"] > 1 else ""


def _rate(data: Data) -> str:
    if data["problems"]:
        return f"no sample: {'; '.join(data['problems'])}"
    return words.pps(data["pps"])
