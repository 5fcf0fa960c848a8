"""Events of the lab as lines of text, for `netbisect follow`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from netbisect.reports.render import text_plot, words
from netbisect.store.db.records import LedgerEvent
from netbisect.store.ledger import Ledger

Data = dict[str, Any]

_ENDS = {
    "nightdone": "measured",
    "confirmed": "the two kernels differ",
    "notconfirmed": "difference not confirmed",
    "culprit": "commit verified",
    "several": "several commits verified",
    "suspects": "a few commits remain",
    "drift": "gradual change",
    "notreproduced": "no change in this range",
    "profiled": "profiles available",
    "measured": "measured",
    "unfinished": "no result",
}

_FORMATS: dict[str, Callable[[str, Data], tuple[str, str]]] = {
    "kernel": lambda name, data: ("build", f"{name}  {words.elapsed(data['seconds'])}"),
    "boot": lambda name, data: ("boot", f"{name}  up after {words.elapsed(data['seconds'])}"),
    "sample": lambda name, data: ("run", f"{name}  {data['scenario']}  {_rate(data)}"),
    "dud": lambda name, data: (data["stage"], f"{name}  {words.clean(data['why'])}"),
    "asked": lambda _, data: (data["kind"], "begins"),
    "decided": lambda name, data: ("next", f"{name}  {words.clean(data['why'])}{_tries(data)}"),
    "closed": lambda _, data: (data["kind"], f"ends: {_ENDS[data['finding']]}"),
    "mail": lambda _, data: ("mail", f"{data['state']}: {data['subject']}{_error(data)}"),
    "quarantine": lambda _, data: ("quarantine", words.clean(data["why"])),
    "release-asked": lambda _, data: ("quarantine", f"{data['by']} requests its release"),
    "release-refused": lambda _, data: ("quarantine", f"stays: {words.clean(data['why'])}"),
    "released": lambda _, data: ("quarantine", f"released by {words.clean(data['by'])}"),
    "request": lambda _, data: (
        "request",
        f"{data['request'] or ''}  {data['what']} by {words.clean(data['who'])}".strip(),
    ),
    "import": lambda _, data: ("import", f"{data['facts']:,} facts from {data['source']}"),
}
"""Label and text by kind of event; other kinds are left out."""


def lines(ledger: Ledger, events: list[LedgerEvent]) -> list[str]:
    """Events as lines of text, with a plot of each new posterior."""
    found = []
    for event in events:
        if event.kind not in _FORMATS:
            continue
        data = event.data
        where = data.get("testbed") or data.get("target") or data.get("arch") or ""
        if event.kind == "closed":
            where = data["key"].split(":")[2]
        what, text = _FORMATS[event.kind](ledger.commits.label(data.get("revision", "")), data)
        when = time.strftime("%H:%M:%S", time.gmtime(event.at))
        found.append(f"{when}  {where:<12} {what:<10}  {text}".rstrip())
        if event.kind == "decided":
            found += _posterior(ledger, data["decision"])
    return found


def _posterior(ledger: Ledger, decision: int) -> list[str]:
    """Plot of the posterior of a decision, unless the decision before it had the same."""
    made = ledger.actions.get(decision)
    before = [one for one in ledger.actions.of_job(made.job) if one.id < decision]
    if made.posterior is None or (before and before[-1].posterior == made.posterior):
        return []
    return text_plot.posterior(made.posterior, ledger.commits.label)


def _tries(data: Data) -> str:
    return f" (try {data['attempt']})" if data["attempt"] > 1 else ""


def _error(data: Data) -> str:
    return f" ({words.clean(data['why'])})" if "why" in data else ""


def _rate(data: Data) -> str:
    if data["problems"]:
        return f"no sample: {'; '.join(data['problems'])}"
    return "; ".join([words.number(data["pps"], data["scenario"]), *data.get("warnings", [])])
