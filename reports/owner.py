"""What the owner of a testbed is told when it is put in quarantine, and what can be done."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.bisect.faults import rule_of
from netbisect.reports import words
from netbisect.reports.mail import Letter
from netbisect.reports.templating import environment

_LINES_MAX = 30
"""Of what the machine said, from its end."""
_WIDTH = 76


@dataclass(frozen=True, slots=True)
class Confinement:
    """A testbed that is put in quarantine."""

    testbed: str
    description: str
    why: str
    by: str
    fault: str = ""
    """Its name in the table of faults; "" when somebody put it there by hand."""
    log: str = ""


def quarantine(told: Confinement) -> Letter:
    """The mail to the owner of a testbed.

    Args:
        told: What there is to tell.
    """
    rule = rule_of(told.fault)
    log = [words.clean(line)[:_WIDTH] for line in told.log.splitlines() if line.strip()]
    name = words.clean(told.testbed)
    place = [("testbed", name)]
    if told.description:
        place.append(("hardware", words.clean(told.description)))
    if told.fault:
        place.append(("fault", words.clean(told.fault)))
    place.append(("put there by", words.clean(told.by)))
    text = environment.get_template("quarantine.txt").render(
        testbed=name,
        why=words.reason(told.why),
        place=place,
        advice=rule.advice.replace("`", "") if rule else "",
        log=log[-_LINES_MAX:],
    )
    return Letter(words.clean(f"[netbisect] {name}: in quarantine, it needs a look"), text)
