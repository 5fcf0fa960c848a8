"""The demonstration: one quiet night, a week of commits, and what the next night starts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from email.message import EmailMessage

from netbisect.bisect.model import Bisection, Culprit
from netbisect.demo.house import House, HouseError
from netbisect.demo.mailbox import read
from netbisect.demo.tree.create import Tree
from netbisect.reports import words
from netbisect.steps import control, progress
from netbisect.steps.casework import open_nights
from netbisect.steps.memory import ledger_of
from netbisect.steps.settings import Settings, load
from netbisect.store.history import History
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import Lab

_LOOK_SECONDS = 0.2
_LIMIT_SECONDS = 600.0
"""After which a demonstration that does not come to its end is given up."""


@dataclass
class Play:
    """One performance."""

    house: House
    tree: Tree
    settings: Settings
    lab: Lab
    ledger: Ledger
    marker: int = 0

    def night(self) -> None:
        """Asks for a night on every testbed and watches until nothing is left to do."""
        history = History(self.settings.mirror, self.lab.source.repository)
        branches = self.settings.branches
        open_nights(self.ledger, history, self.settings, self.lab.testbeds, branches)
        end = time.monotonic() + _LIMIT_SECONDS
        idle = False
        while not idle:
            idle = not self.ledger.open_questions() and not self.ledger.waiting_mails()
            events, self.marker = self.ledger.events_since(self.marker)
            for line in progress.lines(self.ledger, events):
                say(line)
            if time.monotonic() > end:
                raise HouseError(f"no end after {words.duration(_LIMIT_SECONDS)}")
            if control.running(self.house.place) is None:
                raise HouseError(f"the master has died; see {self.house.place / 'twistd.log'}")
            time.sleep(_LOOK_SECONDS)

    def verdict(self) -> bool:
        """Says what was found; whether it is the commit that the story wrote."""
        mails = read(self.house.mails)
        for mail in mails:
            say(f"\n{'─' * 30} mail {'─' * 40}\n{_text(mail)}")
        planted = [one for one, role in self.tree.roles.items() if role == "culprit"]
        named = [alert.culprit for alert in self.ledger.alerts() if alert.culprit]
        for alert in self.ledger.alerts():
            self._tell(alert.bisection, alert.comparison)
            say(f"report:   {self.settings.reports / f'alert-{alert.id}.html'}")
            say(f"web page: {self.settings.report_address(alert.id)}")
        if not named:
            say("No commit was named.")
        right = named == planted
        say("That is right." if right else f"That is wrong: it should be {planted or 'nothing'}.")
        return right

    def _tell(self, bisection: int | None, comparison: int | None) -> None:
        asked = self.ledger.question(bisection) if bisection else None
        if asked is None or not isinstance(asked.question, Bisection):
            return
        cost = self.ledger.cost([one for one in (comparison, bisection) if one])
        finding = asked.finding
        if isinstance(finding, Culprit):
            commit = self.ledger.commit(finding.revision)
            subject = commit.subject if commit else ""
            say(f"culprit:  {finding.revision[:12]} {subject}")
            say(f"          {words.change(finding.effects[0])} against its parent")
            say(f"how sure: {words.certainty(finding.belief.chances[finding.revision])}")
        say(
            f"cost:     {words.count(cost.builds, 'build')}, {words.count(cost.boots, 'boot')}, "
            f"{words.count(cost.runs, 'run')} to confirm and to find it"
        )


def _text(mail: EmailMessage) -> str:
    body = mail.get_body()
    head = "\n".join(f"{name}: {mail[name]}" for name in ("From", "To", "Subject"))
    return f"{head}\n\n{body.get_content() if body else ''}"


def say(line: str) -> None:
    """A line for whoever watches, at once."""
    print(line, flush=True)


def play(house: House, *, culprit: bool = True, seed: int = 1) -> bool:
    """Builds and starts the house, plays the story, and leaves the house running.

    Raises:
        HouseError, ServiceError: it cannot be played.
    """
    say(f"writing a tree, a lab and a service into {house.place}")
    tree = house.build(culprit=culprit, seed=seed)
    house.start()
    settings, lab = load(house.place / control.SETTINGS)
    say(f"master, workers, lab and mail server run: {settings.web.url}")
    performance = Play(house, tree, settings, lab, ledger_of(settings))
    say("\nthe first night")
    performance.night()
    tree.land(len(tree.revisions))
    say(f"\n{len(tree.revisions)} commits have landed; the next night")
    performance.night()
    return performance.verdict()
