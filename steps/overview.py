"""What is going on, as data: for the page and for `netbisect status`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from netbisect.store.ledger import Ledger

_SHOWN = 50
"""Alerts and questions, at most."""


def overview(ledger: Ledger) -> dict[str, Any]:
    """What is going on: open questions with their last decision, alerts, closed testbeds."""
    questions = []
    for asked in ledger.open_questions()[:_SHOWN]:
        decisions = ledger.decisions(asked.id)
        last = decisions[-1] if decisions else None
        beliefs = [one.belief for one in decisions if one.belief is not None]
        questions.append(
            {
                "id": asked.id,
                "kind": type(asked.question).__name__,
                "branch": asked.question.branch,
                "testbed": asked.question.testbed,
                "opened_at": asked.opened_at,
                "decisions": len(decisions),
                "now": f"{last.stage.value} {last.revision[:12]}: {last.why}" if last else "",
                "belief": asdict(beliefs[-1]) if beliefs else None,
            }
        )
    alerts = [
        {
            "id": alert.id,
            "branch": alert.branch,
            "testbed": alert.testbed,
            "lead": alert.lead,
            "ln_ratio": alert.effects[0].ln_ratio,
            "percent": alert.effects[0].percent,
            "good": alert.good,
            "bad": alert.bad,
            "culprit": alert.culprit,
            "state": alert.state.value,
            "opened_at": alert.opened_at,
        }
        for alert in ledger.alerts()[-_SHOWN:]
    ]
    quarantines = [
        {name: value for name, value in asdict(one).items() if name != "log"}
        for _, one in sorted(ledger.quarantined().items())
    ]
    return {"questions": questions, "alerts": alerts[::-1], "quarantines": quarantines}
