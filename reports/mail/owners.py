"""Mails to owners: quarantine, missing workers, and a restarted master."""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.bisect.model.faults import rule_of
from netbisect.bisect.model.mail import Mail
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import WIDTH
from netbisect.reports.render.templating import environment

_LINES_MAX = 30
"""Last lines of the console log."""


def quarantine(
    testbed: str, description: str, *, why: str, by: str, fault: str = "", log: str = ""
) -> Mail:
    """Mail about a testbed in quarantine.

    `description` and `log` may be empty, and `fault` is if a user has set it.
    """
    rule = rule_of(fault)
    lines = [words.clean(line)[:WIDTH] for line in log.splitlines() if line.strip()]
    name = words.clean(testbed)
    facts = {"testbed": name, "hardware": description, "fault": fault, "set by": by}
    text = environment.get_template("quarantine.txt").render(
        testbed=name,
        why=words.reason(why),
        place=[(key, words.clean(fact)) for key, fact in facts.items() if fact],
        advice=rule.advice.replace("`", "") if rule else "",
        log=lines[-_LINES_MAX:],
    )
    return Mail(words.clean(f"[netbisect] {name}: in quarantine"), text)


def worker_away(worker: str, hosts: Sequence[str], seconds: float) -> Mail:
    """Mail about an offline worker with queued work.

    `hosts` are the testbeds and builders that it serves; `seconds` is the time offline.
    """
    name = words.clean(worker)
    return _about_worker(
        f"[netbisect] {name}: worker offline, work is queued",
        name,
        hosts,
        what=f"The worker {name} is offline; work has been queued for it for "
        f"{words.duration(seconds)}.",
        advice="Check its host and twistd.log in its folder, and start it with "
        "`buildbot-worker start`. Interrupted work is repeated. Another mail follows when it is "
        "back.",
    )


def worker_back(worker: str, hosts: Sequence[str]) -> Mail:
    """Mail about a worker that is back online, and serves these testbeds and builders."""
    name = words.clean(worker)
    return _about_worker(
        f"[netbisect] {name}: worker back online",
        name,
        hosts,
        what=f"The worker {name} is back online.",
        advice="Queued work continues; no action is needed.",
    )


def _about_worker(
    subject: str, worker: str, hosts: Sequence[str], *, what: str, advice: str
) -> Mail:
    serves = ", ".join(words.clean(one) for one in hosts)
    text = environment.get_template("worker.txt").render(
        what=what, place=[("worker", worker), ("serves", serves)], advice=advice
    )
    return Mail(subject, text)
