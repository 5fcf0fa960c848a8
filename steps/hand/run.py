"""Goes through a search: asks the engine, runs the commands, writes down both."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from netbisect.bisect import plan
from netbisect.bisect.model import (
    Bisection,
    Boot,
    Dud,
    Finding,
    Kernel,
    Reaction,
    Sample,
    Stage,
    Visit,
)
from netbisect.reports import words
from netbisect.steps.hand import command, overlay, search
from netbisect.steps.hand.command import CommandError, OverBudgetError
from netbisect.steps.hand.log import Log
from netbisect.steps.hand.repository import Worktree
from netbisect.steps.hand.search import METRIC, Entry
from netbisect.steps.hand.verdict import drawn, plainly

_TRIES = 2
Tell = Callable[[str], None]


class EndError(Exception):
    """An end of the range cannot be measured, so that there is nothing to search; a sentence."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may take, in seconds."""

    run: float
    """One run of the command."""
    whole: float
    """All that is run for the search, over all calls; infinite without a budget."""


def finished(entries: list[Entry]) -> Finding | None:
    """How a search has ended; None while it has not."""
    asked, last = entries[0], entries[-1]
    assert isinstance(asked, search.Search)
    if isinstance(last, Finding) and search.next_question(asked, last, entries) is None:
        return last
    return None


class Runner:
    """One search, from where its log ends."""

    def __init__(
        self,
        log: Log,
        worktree: Worktree,
        limits: Limits,
        tell: Tell,
        patches: Sequence[overlay.Patch] = (),
    ) -> None:
        """Nothing is run yet.

        Args:
            log: Open.
            worktree: Entered.
            limits: What it may take.
            tell: Takes lines for people who watch.
            patches: What is put on top of revisions that lack it.
        """
        self._log = log
        self._worktree = worktree
        self._limits = limits
        self._tell = tell
        self._patches = patches
        self._deadline = time.monotonic() + limits.whole - search.spent(log.entries)
        self._current = ""
        """Revision that is checked out and set up."""
        self._shown: list[str] = []

    def go(self) -> Finding:
        """Searches to the end.

        Raises:
            EndError: An end cannot be measured.
            OverBudgetError: The time is over.
            LogError: The log cannot be written.
            RepositoryError: A revision cannot be checked out.
        """
        asked = self._log.search
        while True:
            entries = self._log.entries
            question = search.last_question(entries)
            if question is None:
                question = search.first_question(asked)
                self._log.append(question)
            evidence = search.evidence(asked, entries)
            move = plan.next_move(question, evidence, search.prices(asked, entries))
            if isinstance(move, Visit):
                self._visit(move)
                continue
            self._decide(move)
            follows = search.next_question(asked, move, entries)
            if follows is None:
                return move
            self._log.append(follows)
            self._began(follows)

    def _decide(self, move: Visit | Finding) -> None:
        """Writes a decision, unless a killed call has written the same one just before."""
        last = self._log.entries[-1]
        if isinstance(move, Visit):
            move = replace(move, belief=None)  # it follows from what is above
            known = last == move
        else:
            known = type(last) is type(move)
        if not known:
            self._log.append(move)

    def _began(self, question: Bisection) -> None:
        self._tell(
            f"The ends differ. Searching {words.count(len(question.candidates), 'commit')} for a "
            f"change of about {words.percent(self._log.search.sign * question.effect)}; one run "
            f"scatters by {100 * math.sqrt(question.noise.variance_of_boot()):.2g} %."
        )

    # ------------------------------------------------------------------------------ one visit

    def _visit(self, visit: Visit) -> None:
        if visit.belief is not None:
            lines = drawn(visit.belief)
            if lines != self._shown:
                self._tell("\n".join(lines))
            self._shown = lines
        self._check_time()
        self._decide(visit)
        if self._current != visit.revision and not self._prepare(visit.revision):
            return
        for run in range(visit.runs):
            if not self._try(visit, run):
                return

    def _try(self, visit: Visit, run: int) -> bool:
        """Makes one run of a visit, the second time if need be; whether a number came of it."""
        for number in range(1, _TRIES + 1):
            try:
                self._measure(visit, run)
            except CommandError as error:
                again = error.again and number < _TRIES
                self._failed(visit.revision, Stage.BENCH, error, again=again)
            else:
                return True
            if not again:
                break
        return False

    def _check_time(self) -> float:
        """Seconds that are left.

        Raises:
            OverBudgetError: None are.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OverBudgetError
        return left

    def _prepare(self, revision: str) -> bool:
        """Checks a revision out and sets it up; whether that went well."""
        self._current = ""
        began = time.monotonic()
        self._worktree.check_out(revision)
        try:
            applied = overlay.put_on(self._worktree, self._patches, self._log.search, revision)
        except overlay.OverlayError as error:
            failed = CommandError(str(error), again=False, seconds=time.monotonic() - began)
            self._failed(revision, Stage.CHECKOUT, failed, again=False)
            return False
        tree = self._worktree.tree()
        setup = self._log.search.setup
        if setup:
            try:
                self._run(("sh", "-c", setup), revision, math.inf, "--setup")
            except CommandError as error:
                self._failed(revision, Stage.BUILD, error, again=False)
                return False
        took = time.monotonic() - began
        self._log.append(
            Kernel(revision, "\n".join(applied), "", tree, tree, revision, 0, time.time(), took),
        )
        done = [f"set up in {words.elapsed(took)}"] if setup else []
        done += [f"with {words.listing(list(applied))} applied"] if applied else []
        if done:
            self._tell(f"{'':>5}  {revision[:12]}  {', '.join(done)}")
        self._current = revision
        return True

    def _measure(self, visit: Visit, run: int) -> None:
        """Runs the command; the first run of a visit is written down together with it."""
        asked, entries = self._log.search, self._log.entries
        at = time.time()
        ended = self._run(asked.command, visit.revision, self._limits.run, "the command")
        value = command.number_of(ended, asked.metric)
        number = str(1 + sum(isinstance(entry, Sample) for entry in entries))
        visits = sum(isinstance(entry, Boot) for entry in entries)
        began: list[Boot] = []
        if run == 0:
            visits += 1
            kernel = next(e for e in reversed(entries) if isinstance(e, Kernel))
            began = [Boot(str(visits), "", kernel.key, visit.revision, at, 0.0)]
        boot = str(visits)
        self._log.append(
            *began,
            Sample(
                *(number, boot, "", METRIC, value, 0.0, (value,), (), (), ""), at, ended.seconds
            ),
        )
        why = f"run {run + 1} of {visit.runs} of this visit" if run else plainly(visit.why)
        self._tell(f"{number:>5}  {visit.revision[:12]}  {value:<12.6g}  {why}")

    def _run(
        self, words_of: tuple[str, ...], revision: str, most: float, name: str
    ) -> command.Ended:
        """Runs a command that has to succeed.

        Raises:
            CommandError: It did not.
            OverBudgetError: The time of the search was over before.
        """
        left = self._check_time()
        least = min(left, most)
        began = time.monotonic()
        try:
            ended = command.run(
                words_of, self._worktree.folder, revision, None if least == math.inf else least
            )
        except subprocess.TimeoutExpired as error:
            if left <= most:
                raise OverBudgetError from error
            raise CommandError(
                f"{name} was ended after {words.elapsed(most)}, its --timeout",
                again=True,
                seconds=time.monotonic() - began,
            ) from error
        if ended.status == 0:
            return ended
        why = f"{name} {ended.why}"
        if ended.status == command.SKIP:
            why = f"{name} asked to skip it, by exit status {command.SKIP}"
        raise CommandError(
            why, again=ended.status != command.SKIP, log=ended.log, seconds=ended.seconds
        )

    def _failed(self, revision: str, stage: Stage, error: CommandError, *, again: bool) -> None:
        """Writes down that a revision could not be measured.

        Raises:
            EndError: It is an end of the range. That it must be skipped is not written down, so
                that the search goes on from here once the command is mended.
        """
        asked = self._log.search
        if not again and revision in (asked.good, asked.line[-1].revision):
            end = "good" if revision == asked.good else "bad"
            raise EndError(
                f"the {end} end, {revision[:12]}, cannot be measured: {error}; "
                "the same call goes on once that is mended"
            )
        number = 1 + sum(isinstance(entry, Dud) for entry in self._log.entries)
        reaction = Reaction.RETRY if again else Reaction.SKIP
        self._log.append(
            Dud(
                *(f"dud-{number}", revision, stage, reaction, str(error)),
                time.time(),
                error.seconds,
                log=error.log,
            )
        )
        then = "once more" if again else "skipped"
        self._tell(f"{'':>5}  {revision[:12]}  {then}: {error}")
