"""The demonstration: a quiet night, a week of commits, and a regression."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from email.message import EmailMessage

from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Culprit
from netbisect.demo.mailbox import read
from netbisect.demo.service import DemoError, DemoService
from netbisect.demo.tree.create import SampleTree
from netbisect.demo.tree.story import story
from netbisect.demo.watch import ProgressWatch
from netbisect.reports.render import words
from netbisect.steps.master import progress
from netbisect.steps.scheduler.followups import open_nights
from netbisect.steps.service import control
from netbisect.steps.service.settings import Settings, load
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.git.history import History
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

_POLL_SECONDS = 0.5
_LIMIT_SECONDS = 600.0
"""Limit of a night in seconds."""


@dataclass
class DemoRun:
    """A run of the demonstration."""

    service: DemoService
    tree: SampleTree
    watch: ProgressWatch = field(default_factory=ProgressWatch)
    marker: int = 0
    settings: Settings = field(init=False)
    lab: Lab = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.settings, self.lab = load(self.service.place / control.SETTINGS)
        self.ledger = open_service_ledger(self.settings)

    def begin_night(self) -> None:
        """Starts nightly jobs on all testbeds."""
        history = History(self.settings.mirror, self.lab.source.repository)
        history.update()
        branches = self.settings.branches
        open_nights(self.ledger, history, self.settings, self.lab.testbeds, branches)

    def night(self) -> None:
        """Starts nightly jobs on all testbeds and waits until the service is idle."""
        self.watch.waits_for("the commits of the tree")
        self.begin_night()
        end = time.monotonic() + _LIMIT_SECONDS
        idle = False
        while not idle:
            waits = self._open_work()
            idle = not waits
            events, self.marker = self.ledger.events.since(self.marker)
            if events:
                self.watch.waits_for(waits)
            for line in progress.lines(self.ledger, events):
                self.watch.say(line)
            if time.monotonic() > end:
                raise DemoError(f"not finished after {words.duration(_LIMIT_SECONDS)}")
            if control.master_pid(self.service.place) is None:
                raise DemoError(f"the master has exited; see {self.service.place / 'twistd.log'}")
            time.sleep(_POLL_SECONDS)

    def _open_work(self) -> str:
        """Description of open work, or ""."""
        jobs = [record.key for record in self.ledger.jobs.all_open()]
        mails = len(self.ledger.mails.waiting())
        parts = [f"the end of {', '.join(jobs)}"] if jobs else []
        parts += [f"{words.count(mails, 'mail')} to leave"] if mails else []
        return " and ".join(parts)

    def verdict(self) -> bool:
        """Prints the result; returns whether it is the planted culprit."""
        mails = read(self.service.mails)
        for mail in mails:
            self.watch.say(f"\n{'─' * 30} mail {'─' * 40}\n{_text(mail)}")
        planted = [one for one, role in self.tree.roles.items() if role == "culprit"]
        named = [alert.culprit for alert in self.ledger.alerts.all() if alert.culprit]
        for alert in self.ledger.alerts.all():
            self._print_cost(alert.bisection, alert.comparison)
            self.watch.say(f"web page: {self.settings.report_address(alert.id)}")
        if not named:
            self.watch.say("No commit was reported.")
        right = named == planted
        self.watch.say(
            "That is correct." if right else f"That is wrong: expected {planted or 'nothing'}."
        )
        return right

    def _print_cost(self, bisection: int | None, comparison: int | None) -> None:
        record = self.ledger.jobs.get(bisection) if bisection else None
        if record is None or not isinstance(record.job, BisectJob):
            return
        cost = self.ledger.costs.of_jobs([one for one in (comparison, bisection) if one])
        result = record.result
        if isinstance(result, Culprit):
            commit = self.ledger.commits.get(result.revision)
            subject = commit.subject if commit else ""
            self.watch.say(f"culprit:  {result.revision[:12]} {subject}")
            self.watch.say(f"          {words.change(result.effects[0])} against its parent")
            self.watch.say(
                f"probable: {words.certainty(result.posterior.chances[result.revision])}"
            )
        self.watch.say(
            f"cost:     {words.count(cost.builds, 'build')}, {words.count(cost.boots, 'boot')}, "
            f"{words.count(cost.runs, 'run')} to confirm and to find it"
        )


def _text(mail: EmailMessage) -> str:
    body = mail.get_body()
    head = "\n".join(f"{name}: {mail[name].strip()}" for name in ("From", "To", "Subject"))
    return f"{head}\n\n{body.get_content() if body else ''}"


def play(
    service: DemoService, *, culprit: bool = True, seed: int = 1, watch: ProgressWatch | None = None
) -> bool:
    """Builds and starts the service, runs the demonstration and keeps it running.

    Args:
        service: The service.
        culprit: Whether the commits contain a culprit.
        seed: Random seed of the lab.
        watch: Prints progress.

    Raises:
        DemoError, ServiceError: It failed.
    """
    watch = watch or ProgressWatch()
    watch.waits_for("the tree and the first kernel")
    watch.say(f"writing a tree, a lab and a service into {service.place}")
    tree = service.build(commits=story(culprit=culprit), seed=seed)
    service.add_login()
    watch.log = f"{service.place / 'twistd.log'} and {service.processes}"
    service.report_wait = watch.waits_for
    service.start()
    performance = DemoRun(service, tree, watch)
    watch.say(f"master, workers, lab and mail server run: {performance.settings.web.url}")
    watch.say("\nthe first night")
    performance.night()
    tree.land(len(tree.revisions))
    watch.say(f"\n{len(tree.revisions)} commits have landed; the next night")
    performance.night()
    return performance.verdict()
