"""What follows from a finding: the next question, the alert, the mail, the page.

Everything here is synchronous and runs in the ledger's thread. What belongs together is written
in one transaction, so that no kill can separate a verdict from its mail.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

from netbisect.bisect.confirm import Word
from netbisect.bisect.life import after_search
from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Confirmed,
    Culprit,
    Effect,
    Finding,
    Measurement,
    Night,
    NightDone,
    NotConfirmed,
    Profiling,
    Several,
    Unfinished,
)
from netbisect.bisect.states import AlertKind, AlertState
from netbisect.reports import mail, page
from netbisect.reports.case import Case
from netbisect.steps import profiles, request_files, request_work, searches, suspicions
from netbisect.steps.casefile import case_of, deeds, numbered, seen_from
from netbisect.steps.kernels import Kernels
from netbisect.steps.memory import history_of
from netbisect.steps.recipients import recipients
from netbisect.steps.recovery import close_recovered, end_mutes
from netbisect.steps.repeats import is_repeat, repeat_night
from netbisect.steps.settings import Settings
from netbisect.steps.surroundings import OfLab
from netbisect.steps.suspicions import Answer
from netbisect.store.history import History, HistoryError
from netbisect.store.ledger import Ledger
from netbisect.store.questions import AlreadyClosedError, Closing
from netbisect.store.records import Alert, Asked, Quarantine
from netbisect.workers.lab import Lab, Testbed

PRIORITY_NIGHT = 100
PRIORITY_BISECTION = 200


def open_nights(
    ledger: Ledger,
    history: History,
    settings: Settings,
    testbeds: Iterable[Testbed],
    branches: Iterable[str],
) -> list[str]:
    """Asks how fast the heads of branches are on testbeds; says what came of each.

    A revision is measured once per testbed: more boots of one image would not say more about
    the next. It is asked again when the earlier night came to nothing; and every so many nights
    the last one is repeated, to see what would be called between two nights of one kernel.

    Raises:
        HistoryError: the tree cannot be read, or has no such branch; nothing is asked then.
    """
    history.update()
    heads = {branch: history.commit(history.head(branch)) for branch in branches}
    for branch, head in heads.items():
        ledger.learn([head], branch)
    said = []
    for (branch, head), testbed in product(heads.items(), testbeds):
        said.append(_open_night(ledger, settings, testbed, branch, head.revision))
        again = repeat_night(ledger, settings.night, testbed, branch)
        if again:
            said.append(f"{branch} on {testbed.name}: {again[:12]} is to be measured again")
    return said


def _open_night(
    ledger: Ledger, settings: Settings, testbed: Testbed, branch: str, head: str
) -> str:
    key = f"night:{branch}:{testbed.name}:{head}"
    night = Night(branch, testbed.name, head, testbed.scenarios, settings.night.boots)
    asked = ledger.ask(night, key=key, priority=PRIORITY_NIGHT)
    if isinstance(asked.finding, Unfinished):
        key = f"{key}:{time.strftime('%Y-%m-%d', time.gmtime())}"
        asked = ledger.ask(night, key=key, priority=PRIORITY_NIGHT)
    if asked.finding is not None:
        return f"{branch} on {testbed.name}: {head[:12]} has been measured"
    return f"{branch} on {testbed.name}: {head[:12]} is to be measured"


def _key(question: Comparison) -> str:
    return f"compare:{question.branch}:{question.testbed}:{question.good}:{question.bad}"


def _withdraw(closing: Closing, candidate: Alert | None, why: str) -> None:
    if candidate is not None and candidate.announced_at is None:
        closing.change_alert(candidate.id, what=why, state=AlertState.WITHDRAWN)


def _named(finding: Finding) -> str | None:
    """The commit that a finding names: of several, the one with the largest effect."""
    if isinstance(finding, Several):
        return finding.culprits[0].revision
    return finding.revision if isinstance(finding, Culprit) else None


class Casework:
    """Concludes questions."""

    def __init__(self, settings: Settings, lab: Lab) -> None:
        self.settings = settings
        self.lab = lab
        self.history = history_of(settings, lab)
        self.kernels = Kernels(lab, self.history)

    def conclude(self, ledger: Ledger, asked: Asked, finding: Finding) -> list[Asked]:
        """Closes a question with its finding; returns the questions that follow from it."""
        try:
            if asked.request is not None:
                return request_work.conclude(
                    ledger, self.settings, self.lab, self.history, asked, finding
                )
            match asked.question:
                case Night() as night:
                    return self._after_night(ledger, asked, night, finding)
                case Comparison() as comparison:
                    return self._after_comparison(ledger, asked, comparison, finding)
                case Bisection():
                    return self._after_bisection(ledger, asked, finding)
                case Profiling():
                    self._after_profiling(ledger, asked, finding)
                case Measurement():  # asked by nobody: kept, and nothing follows
                    with ledger.closing(asked, finding):
                        return []
        except AlreadyClosedError:
            pass  # what follows was done with it
        return []

    # -------------------------------------------------------------------------------- a night

    def _after_night(
        self, ledger: Ledger, asked: Asked, night: Night, finding: Finding
    ) -> list[Asked]:
        end_mutes(ledger)
        for alert in close_recovered(ledger, night.testbed, night.branch):
            self._write_page(ledger, alert)
        doubt, wanted = None, None
        mixed: tuple[tuple[str, Effect], ...] = ()
        # A kernel that was measured again is no slower than itself: nothing is new.
        if isinstance(finding, NightDone) and not is_repeat(asked):
            seen = suspicions.tonight(ledger, night, self.settings.min_effect)
            mixed = seen.mixes
            doubt = suspicions.doubtful(ledger, night.testbed, night.branch)
            if doubt is None:
                wanted = seen.wanted
            elif doubt[1].finding is not None:  # otherwise it is being compared
                wanted = suspicions.next_pair(ledger, doubt[1])
        held = ledger.quarantined().get(night.testbed)
        with ledger.closing(asked, finding) as closing:
            if isinstance(finding, Unfinished):
                self._tell_trouble(closing, finding, held)
            for good, effect in mixed:
                often = "more" if effect.ln_ratio < 0 else "less"
                what = f"its boots come up in their slow mode {often} often"
                closing.note_modes(effect, good=good, what=what)
            if wanted is None:
                return []
            if doubt is not None:
                return [self._compare_more(closing, wanted, *doubt)]
            return self._compare(closing, wanted)

    def _compare(self, closing: Closing, wanted: Comparison) -> list[Asked]:
        """Asks for the first pair of a suspicion; not again for one that was compared before."""
        asked = closing.ask(wanted, key=_key(wanted), priority=PRIORITY_BISECTION)
        if asked.parent != closing.asked.id:
            return []
        kind = AlertKind.IMPROVEMENT if wanted.suspected > 0 else AlertKind.DROP
        alert = closing.open_candidate(asked, kind=kind, what="the night was off its baseline")
        closing.change_alert(alert.id, what="it is measured in turns", state=AlertState.CONFIRMING)
        return [asked]

    def _compare_more(
        self, closing: Closing, wanted: Comparison, alert: Alert, last: Asked
    ) -> Asked:
        """Asks for a further pair of images."""
        asked = closing.ask(wanted, key=_key(wanted), parent=last.id, priority=PRIORITY_BISECTION)
        what = "a further pair of images is measured in turns"
        closing.change_alert(alert.id, what=what, comparison=asked.id)
        return asked

    def _tell_trouble(
        self, closing: Closing, finding: Unfinished, held: Quarantine | None = None
    ) -> None:
        """Once for a question; of nights on a testbed in quarantine only for the first one."""
        question = closing.asked.question
        assert isinstance(question, Night | Comparison)
        letter = mail.trouble(question, finding)
        key = f"quarantine:{held.id}:{question.branch}" if held else f"{closing.asked.id}"
        closing.post(
            f"trouble:{key}",
            subject=letter.subject,
            recipients=recipients(self.settings.mail, question.branch, question.testbed),
            body=letter.text,
        )

    # --------------------------------------------------------------------------- a comparison

    def _after_comparison(
        self, ledger: Ledger, asked: Asked, question: Comparison, finding: Finding
    ) -> list[Asked]:
        candidate = ledger.alert_about(asked.id)
        if not isinstance(finding, Confirmed | NotConfirmed):
            with ledger.closing(asked, finding) as closing:
                if isinstance(finding, Unfinished):
                    self._tell_trouble(closing, finding)
                    _withdraw(closing, candidate, finding.why)
            return []
        answer = suspicions.answer(ledger, asked, finding)
        if answer.word is Word.CHANGED:
            return self._announce(ledger, asked, finding, answer)
        more = suspicions.next_pair(ledger, asked) if answer.word is Word.MORE else None
        with ledger.closing(asked, finding) as closing:
            if answer.word is Word.NO:
                _withdraw(closing, candidate, answer.why)
            elif more is not None and candidate is not None:
                return [self._compare_more(closing, more, candidate, asked)]
            elif candidate is not None:
                what = f"{answer.why}; the next night has another image"
                closing.change_alert(candidate.id, what=what)
        return []

    def _announce(
        self, ledger: Ledger, asked: Asked, finding: Finding, answer: Answer
    ) -> list[Asked]:
        """Opens the alert, tells it, and asks for the search; a gain is only written down."""
        question, confirmed = answer.first, Confirmed(answer.effects)
        ends = question.good, question.bad
        what = f"confirmed by boots in turns of {answer.why}"
        if question.suspected > 0:
            with ledger.closing(asked, finding) as closing:
                closing.open_alert(answer.effects, what=what, ends=ends)
            return []
        commits, trouble = searches.commits_between(ledger, self.history, question)
        testbed = self.lab.testbed(question.testbed)
        mates = self.lab.mates(testbed) if self.settings.search.use_groups else ()
        bisection = searches.search(ledger, testbed, question, confirmed, commits, mates)
        shared = searches.shared(ledger, bisection, confirmed) if bisection else None
        case = case_of(ledger, self.settings, self.kernels, asked, confirmed, commits)
        followers = []
        with ledger.closing(asked, finding) as closing:
            alert = closing.open_alert(answer.effects, what=what, ends=ends)
            if shared is not None:
                closing.change_alert(
                    alert.id,
                    what=f"the search on {shared.question.testbed} looks for the commit",
                    bisection=shared.id,
                    state=AlertState.BISECTING,
                )
            elif bisection is not None:
                key = f"bisect:{question.branch}:{question.testbed}:{question.good}:{question.bad}"
                followers.append(closing.ask(bisection, key=key, priority=PRIORITY_BISECTION))
                closing.change_alert(
                    alert.id,
                    what="the search for the commit begins",
                    bisection=followers[0].id,
                    state=AlertState.BISECTING,
                )
            else:
                closing.change_alert(alert.id, what=trouble, state=AlertState.NO_CULPRIT)
            case = numbered(case, self.settings, alert.id)
            letter = mail.alert(case)
            closing.post(
                f"alert:{alert.id}:{asked.id}",
                subject=letter.subject,
                recipients=recipients(self.settings.mail, question.branch, question.testbed),
                body=f"{letter.text}\n{trouble}\n" if trouble else letter.text,
                alert=alert.id,
            )
        self._write_page(ledger, alert, case)
        return followers

    # ---------------------------------------------------------------------------- a bisection

    def _after_bisection(self, ledger: Ledger, asked: Asked, finding: Finding) -> list[Asked]:
        alerts = ledger.alerts_about(asked.id)
        # Of what people have muted nobody wants to know more.
        heard = [alert for alert in alerts if not alert.state.silent]
        wanted = profiles.wanted(ledger, asked, finding) if heard else []
        cases = {alert.id: self._case(ledger, alert, asked, finding) for alert in alerts}
        letters = [
            (alert, self._told(alert, finding), mail.outcome(cases[alert.id])) for alert in heard
        ]
        with ledger.closing(asked, finding) as closing:
            for alert in alerts:
                closing.change_alert(
                    alert.id,
                    what=f"the search ended: {type(finding).__name__}",
                    state=after_search(finding),
                    culprit=_named(finding),
                )
                closing.join_same_culprit(alert.id)
            for alert, told, letter in letters:
                closing.post(
                    f"outcome:{alert.id}:{asked.id}",
                    subject=letter.subject,
                    recipients=told,
                    body=letter.text,
                    alert=alert.id,
                )
            followers = [
                closing.ask(one, key=profiles.key_of(one), priority=profiles.PRIORITY_CULPRIT)
                for one in wanted
            ]
        for alert in alerts:
            self._write_page(ledger, alert, cases[alert.id])
        return followers

    # -------------------------------------------------------------------------------- profiles

    def _after_profiling(self, ledger: Ledger, asked: Asked, finding: Finding) -> None:
        """Shows what was seen: on the pages of its alerts, and on its own if asked by hand."""
        alerts = profiles.shown_by(ledger, asked)
        if asked.parent is None:
            profiles.write_page(ledger, self.settings, self.lab, replace(asked, finding=finding))
        what = "there are profiles of the commit and of its parent"
        if isinstance(finding, Unfinished):
            what = f"no profile: {finding.why}"
        with ledger.closing(asked, finding) as closing:
            for alert in alerts:
                closing.change_alert(alert.id, what=what)
        for alert in alerts:
            self._write_page(ledger, alert)

    def _told(self, alert: Alert, finding: Finding) -> tuple[str, ...]:
        """Whom the end of a search is mailed to; of commits, only verified ones have a say."""
        culprits = [finding] if isinstance(finding, Culprit) else []
        if isinstance(finding, Several):
            culprits = [*finding.culprits]
        paths: list[str] = []
        committers = []
        with contextlib.suppress(HistoryError):  # a tree that cannot be read delays no mail
            for one in culprits:
                paths += self.history.commit(one.revision).paths
                committers.append(self.history.committer(one.revision))
        return recipients(self.settings.mail, alert.branch, alert.testbed, paths, committers)

    # ---------------------------------------------------------------------------------- pages

    def _case(self, ledger: Ledger, alert: Alert, asked: Asked, finding: Finding | None) -> Case:
        """All that is told of an alert."""
        if isinstance(asked.question, Comparison) and isinstance(finding, Confirmed):
            finding = Confirmed(alert.effects)
        case = case_of(ledger, self.settings, self.kernels, asked, finding)
        case = seen_from(OfLab(self.settings, self.kernels), ledger, alert, asked, case)
        others = [branch for branch in self.settings.branches if branch != alert.branch]
        culprit = _named(finding) if finding is not None else None
        now = ledger.clock()
        stable = searches.fate(self.history, culprit, alert.branch, others, case.label, now)
        return replace(numbered(case, self.settings, alert.id), stable=tuple(stable))

    def page_of(self, alert: int) -> Path:
        """Where the page of an alert is."""
        return self.settings.reports / f"alert-{alert}.html"

    def _write_page(self, ledger: Ledger, alert: Alert, case: Case | None = None) -> None:
        """The page of a drop.

        Args:
            ledger: Where all else is looked up.
            alert: What it is of.
            case: As it was gathered for a mail; None where there was none.
        """
        alert = ledger.alert(alert.id)
        last = alert.bisection or alert.comparison
        if last is None or alert.kind is not AlertKind.DROP:
            return
        asked = ledger.question(last)
        if case is None:
            case = self._case(ledger, alert, asked, asked.finding)
        if isinstance(asked.question, Bisection):
            case = replace(case, profiles=profiles.of_search(ledger, self.settings.visits, asked))
        case = replace(case, deeds=deeds(ledger, alert.id))
        profiles.put(self.page_of(alert.id), page.page(case))

    def write_missing_pages(self, ledger: Ledger) -> None:
        """After a restart: the pages that a kill prevented, and those older than the news."""
        changed = ledger.alert_news()
        for alert in ledger.alerts():
            if alert.kind is not AlertKind.DROP:
                continue
            path, news = self.page_of(alert.id), changed[alert.id][1]
            if not path.is_file() or path.stat().st_mtime < news:
                self._write_page(ledger, alert)
        request_files.write_missing(ledger, self.settings, self.lab, self.history)
