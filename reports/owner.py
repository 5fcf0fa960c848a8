"""What the owner of a testbed is told when it needs somebody, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence
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


def worker_away(worker: str, hosts: Sequence[str], seconds: float) -> Letter:
    """The mail about a worker that is needed and is not there.

    Args:
        worker: Its name.
        hosts: Names of the testbeds and builders that it serves.
        seconds: Since when it is missed.
    """
    name = words.clean(worker)
    return _about_worker(
        f"[netbisect] {name}: this worker is away, and it is needed",
        name,
        hosts,
        what=f"The worker {name} is not connected, and work has waited for it "
        f"for {words.duration(seconds)}.",
        advice="Look at its host and at twistd.log in its folder, and start it with "
        "`buildbot-worker start`. Nothing is lost: what it did is done again, from the known-good "
        "kernel on. You are told once more when it is back.",
    )


def worker_back(worker: str, hosts: Sequence[str]) -> Letter:
    """The mail about a worker that is there again.

    Args:
        worker: Its name.
        hosts: Names of the testbeds and builders that it serves.
    """
    name = words.clean(worker)
    return _about_worker(
        f"[netbisect] {name}: this worker is back",
        name,
        hosts,
        what=f"The worker {name} is connected again.",
        advice="What waited for it goes on; nothing is left to be done.",
    )


def _about_worker(
    subject: str, worker: str, hosts: Sequence[str], *, what: str, advice: str
) -> Letter:
    serves = ", ".join(words.clean(one) for one in hosts)
    text = environment.get_template("worker.txt").render(
        what=what, place=[("worker", worker), ("serves", serves)], advice=advice
    )
    return Letter(subject, text)


def begun_afresh(host: str, folder: str, said: str) -> Letter:
    """The mail about a master that could not write its database for a while.

    Args:
        host: Where it runs.
        folder: Of the service, on that host.
        said: By the database.
    """
    text = environment.get_template("worker.txt").render(
        what=f"The master could not write its database: {words.clean(said)}. Now it can be "
        "written again, and the master begins afresh.",
        place=[("host", words.clean(host)), ("folder", words.clean(folder))],
        advice="Nothing is lost: what it was doing is done again. Look at the room on that disk; "
        "you are not told again within a day.",
    )
    return Letter("[netbisect] the master had no room to write, and begins afresh", text)
