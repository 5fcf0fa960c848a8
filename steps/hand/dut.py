"""One device under test of a search by hand: a checkout, and the commands that run in it."""

from __future__ import annotations

import math
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from netbisect.bisect.model import (
    Boot,
    Dud,
    Kernel,
    Reaction,
    Sample,
    Stage,
    Visit,
    kernel_name,
)
from netbisect.reports import words
from netbisect.steps.hand import command, overlay, search
from netbisect.steps.hand.command import CommandError, OverBudgetError, StoppedError
from netbisect.steps.hand.log import Log
from netbisect.steps.hand.repository import Worktree
from netbisect.steps.hand.search import METRIC, Entry
from netbisect.steps.hand.verdict import plainly

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
    """All that is run for the search, over all calls and devices; infinite without a budget."""


@dataclass(slots=True)
class Desk:
    """What all devices of a search share."""

    log: Log
    limits: Limits
    tell: Tell
    """Takes lines for people who watch."""
    patches: Sequence[overlay.Patch] = ()
    """What is put on top of revisions that lack it."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when nothing more is to be run."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by who reads the log to add to it."""
    deadline: float = math.inf
    """Of the budget, by the monotonic clock."""

    def __post_init__(self) -> None:
        """Looks how much of the budget is left to each device."""
        left = self.limits.whole - search.spent(self.log.entries)
        self.deadline = time.monotonic() + left / self.log.search.duts

    def write(self, *facts: Entry) -> None:
        """Writes down what happened.

        Raises:
            StoppedError: It no longer counts.
            LogError: It cannot be written.
        """
        with self.lock:
            if self.stop.is_set():
                raise StoppedError
            self.log.append(*facts)

    def time_left(self) -> float:
        """Seconds that are left.

        Raises:
            OverBudgetError: None are.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OverBudgetError
        return left


class Dut:
    """A checkout of its own; visits are made in it, one after the other."""

    def __init__(self, name: str, worktree: Worktree, desk: Desk) -> None:
        """Nothing is run yet.

        Args:
            name: Its number; empty where there is only one.
            worktree: Entered.
            desk: What it shares with others.
        """
        self.name = name
        self._worktree = worktree
        self._desk = desk
        self._current: Kernel | None = None
        """What is checked out and set up."""

    def visit(self, visit: Visit, done: int = 0) -> None:
        """Makes a visit: checks its revision out if need be, and runs the command.

        Args:
            visit: What was decided.
            done: Runs of it that were made before an interruption.

        Raises:
            EndError: An end cannot be measured.
            OverBudgetError: The time is over.
            StoppedError: The search is.
            LogError: The log cannot be written.
            RepositoryError: The revision cannot be checked out.
        """
        kernel = self._current
        wanted = visit.revision, visit.layout
        if kernel is None or (kernel.revision, kernel.layout) != wanted:
            kernel = self._prepare(*wanted)
        if kernel is None:
            return
        boot = ""
        for run in range(done, visit.runs):
            made = self._try(visit, kernel, run, boot)
            if made is None:
                return
            boot = made

    def _try(self, visit: Visit, kernel: Kernel, run: int, boot: str) -> str | None:
        """Makes one run of a visit, the second time if need be; its boot if a number came of it."""
        for number in range(1, _TRIES + 1):
            try:
                return self._measure(visit, kernel, run, boot)
            except CommandError as error:
                again = error.again and number < _TRIES
                self._failed(visit.revision, Stage.BENCH, error, visit.layout, again=again)
            if not again:
                break
        return None

    def _prepare(self, revision: str, layout: int) -> Kernel | None:
        """Checks a revision out and sets it up; None if that failed."""
        desk, asked = self._desk, self._desk.log.search
        self._current = None
        began = time.monotonic()
        with desk.lock:  # git locks what worktrees share, and does not wait
            self._worktree.check_out(revision)
        try:
            applied = overlay.put_on(self._worktree, desk.patches, asked, revision)
        except overlay.OverlayError as error:
            failed = CommandError(str(error), again=False, seconds=time.monotonic() - began)
            self._failed(revision, Stage.CHECKOUT, failed, layout, again=False)
            return None
        tree = kernel_name(self._worktree.tree(), layout)
        if asked.setup:
            try:
                self._run(("sh", "-c", asked.setup), (revision, layout), math.inf, "--setup")
            except CommandError as error:
                self._failed(revision, Stage.BUILD, error, layout, again=False)
                return None
        took = time.monotonic() - began
        config = "\n".join(applied)
        built = (revision, config, self.name, tree, tree, revision, 0, time.time(), took)
        kernel = Kernel(*built, layout)
        desk.write(kernel)
        done = [f"set up in {words.elapsed(took)}"] if asked.setup else []
        done += [f"layout {layout}"] if layout else []
        done += [f"with {words.listing(list(applied))} applied"] if applied else []
        if done:
            desk.tell(f"{'':>5}  {revision[:12]}  {', '.join(done)}{self._there}")
        self._current = kernel
        return kernel

    @property
    def _there(self) -> str:
        return f"; DUT {self.name}" if self.name else ""

    def _measure(self, visit: Visit, kernel: Kernel, run: int, boot: str) -> str:
        """Runs the command; the first run of a visit is written down together with it.

        Returns:
            The boot that the run belongs to; a new one if `boot` is empty.
        """
        desk, asked = self._desk, self._desk.log.search
        at = time.time()
        what = visit.revision, visit.layout
        ended = self._run(asked.command, what, desk.limits.run, "the command")
        value = command.number_of(ended, asked.metric)
        with desk.lock:
            entries = desk.log.entries
            number = str(1 + sum(isinstance(entry, Sample) for entry in entries))
            began: list[Boot] = []
            if not boot:
                boot = str(1 + sum(isinstance(entry, Boot) for entry in entries))
                began = [Boot(boot, self.name, kernel.key, visit.revision, at, 0.0)]
            desk.write(
                *began,
                Sample(
                    *(number, boot, self.name, METRIC, value, 0.0, (value,), (), (), ""),
                    at,
                    ended.seconds,
                ),
            )
            why = f"run {run + 1} of {visit.runs} of this visit" if run else plainly(visit.why)
            line = f"{number:>5}  {visit.revision[:12]}  {value:<12.6g}  {why}{self._there}"
            desk.tell(line)
        return boot

    def _run(
        self, words_of: tuple[str, ...], what: tuple[str, int], most: float, name: str
    ) -> command.Ended:
        """Runs a command that has to succeed, for a revision in a layout.

        Raises:
            CommandError: It did not.
            OverBudgetError: The time of the search was over before.
            StoppedError: The search is over.
        """
        left = self._desk.time_left()
        least = min(left, most)
        began = time.monotonic()
        told = {
            "NETBISECT_REVISION": what[0],
            "NETBISECT_LAYOUT": str(what[1]),
            "NETBISECT_DUT": self.name or "1",
        }
        try:
            ended = command.run(
                words_of,
                self._worktree.folder,
                told,
                None if least == math.inf else least,
                self._desk.stop,
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

    def _failed(
        self, revision: str, stage: Stage, error: CommandError, layout: int, *, again: bool
    ) -> None:
        """Writes down that a revision could not be measured, in this layout.

        Raises:
            EndError: It is an end of the range. That it must be skipped is not written down, so
                that the search goes on from here once the command is mended.
        """
        desk, asked = self._desk, self._desk.log.search
        ends = (asked.good, asked.line[-1].revision)
        if not again and not layout and revision in ends:
            end = "good" if revision == asked.good else "bad"
            raise EndError(
                f"the {end} end, {revision[:12]}, cannot be measured: {error}; "
                "the same call goes on once that is mended"
            )
        reaction = Reaction.RETRY if again else Reaction.SKIP
        with desk.lock:
            number = 1 + sum(isinstance(entry, Dud) for entry in desk.log.entries)
            desk.write(
                Dud(
                    *(f"dud-{number}", revision, stage, reaction, str(error)),
                    time.time(),
                    error.seconds,
                    testbed=self.name,
                    log=error.log,
                    layout=layout,
                )
            )
        then = "once more" if again else "skipped"
        then = f"layout {layout}, {then}" if layout else then
        desk.tell(f"{'':>5}  {revision[:12]}  {then}: {error}{self._there}")
