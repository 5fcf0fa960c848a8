"""A device under test of a local search: a checkout and the commands that run in it."""

from __future__ import annotations

import errno
import math
import os
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from netbisect.bisect.model.entities import Boot, Failure, Kernel, Reaction, Sample, Stage
from netbisect.bisect.model.evidence import kernel_name
from netbisect.bisect.model.results import Trial
from netbisect.errors import UserError
from netbisect.localbisect import command, overlay, search
from netbisect.localbisect.command import BudgetError, MeasurementError, SearchStoppedError
from netbisect.localbisect.log import SearchLog
from netbisect.localbisect.repository import Worktree
from netbisect.localbisect.search import METRIC, Entry, OverlaySpec
from netbisect.reports.render import words

Report = Callable[[str], None]

_RETRIES, _RETRIES_IF_MEASURED = 1, 3
"""Retries of a run; a revision that has been measured before fails by chance."""
_SHOWN_LINES = 20
"""Lines of output shown when an end fails: the last one often only says that others explain it."""
_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
"""Messages of programs on a full disk."""
_FULL_BYTES = 4 << 20
"""Most free space of a full disk: a failed program may have removed its last file."""


class DiskFullError(UserError):
    """A revision could not be measured because a disk is full."""


class EndpointError(UserError):
    """An end of the range cannot be measured."""


@dataclass(slots=True)
class SearchSession:
    """State shared by all devices of a search."""

    log: SearchLog
    timeout: float
    """Limit of one run of the command in seconds."""
    budget: float
    """Limit of all runs and builds in seconds, over all calls and devices; may be infinite."""
    report: Report
    """Prints a progress line."""
    patches: Mapping[OverlaySpec, bytes]
    """Contents of the overlays at the start of the search."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set to stop all devices."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held from reading the log until appending to it."""
    deadline: float = math.inf
    """End of the budget on the monotonic clock."""

    def __post_init__(self) -> None:
        """Sets the deadline from the remaining budget."""
        left = self.budget - search.seconds_spent(self.log.entries)
        self.deadline = time.monotonic() + left / self.log.spec.duts

    def write(self, *facts: Entry) -> None:
        """Appends facts to the log. Raises SearchStoppedError and LogError."""
        with self.lock:
            if self.stop.is_set():
                raise SearchStoppedError
            self.log.append(*facts)

    def time_left(self) -> float:
        """Remaining seconds of the budget. Raises BudgetError if it is spent."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise BudgetError
        return left


class LocalDut:
    """A checkout of its own, in which trials run one after the other."""

    def __init__(self, name: str, worktree: Worktree, session: SearchSession) -> None:
        """Runs nothing yet; the worktree is entered, and the name of an only device is empty."""
        self.name = name
        self._worktree = worktree
        self._session = session
        self._current: Kernel | None = None
        """The revision that is checked out and set up."""

    def run_trial(self, trial: Trial, done: int = 0) -> None:
        """Runs a trial: checks out the revision if needed, and runs the command.

        Args:
            trial: The trial.
            done: Runs completed before an interruption.

        Raises:
            EndpointError: An end cannot be measured.
            DiskFullError: A disk is full.
            BudgetError: The budget is spent.
            SearchStoppedError: The search has stopped.
            LogError: The log cannot be written.
            RepositoryError: The revision cannot be checked out.
        """
        kernel = self._current
        if kernel is None or (kernel.revision, kernel.layout) != (trial.revision, trial.layout):
            kernel = self._set_up(trial)
        run, boot, failures = done, "", 0
        while kernel is not None and run < trial.runs:
            try:
                boot = self._measure(trial, kernel, run, boot)
                run, failures = run + 1, 0
            except MeasurementError as error:
                failures += 1
                again = error.again and failures <= self._retries(kernel)
                self._record_failure(trial, Stage.BENCH, error, again=again)
                if not again:
                    return

    def _retries(self, kernel: Kernel) -> int:
        """How often a run is repeated after failures in a row."""
        entries = self._session.log.entries
        works = any(isinstance(entry, Boot) and entry.kernel == kernel.key for entry in entries)
        return _RETRIES_IF_MEASURED if works else _RETRIES

    def _set_up(self, trial: Trial) -> Kernel | None:
        """Checks out and sets up the revision of a trial; None on failure."""
        session, spec = self._session, self._session.log.spec
        revision, layout = trial.revision, trial.layout
        self._current = None
        began = time.monotonic()
        with session.lock:  # git fails on a lock of another worktree instead of waiting
            tree = self._worktree.check_out(revision)
        try:
            applied = overlay.apply_overlays(self._worktree, session.patches, spec, revision)
        except overlay.OverlayError as error:
            failed = MeasurementError(str(error), seconds=time.monotonic() - began)
            self._record_failure(trial, Stage.CHECKOUT, failed)
            return None
        tree = kernel_name(self._worktree.tree() if applied else tree, layout)
        if spec.setup:
            try:
                self._run(trial, "--setup", ("sh", "-c", spec.setup), end_children=False)
            except MeasurementError as error:
                self._record_failure(trial, Stage.BUILD, error)
                return None
        took = time.monotonic() - began
        config = "\n".join(applied)
        built = (revision, config, self.name, tree, tree, revision, 0, time.time(), took)
        kernel = Kernel(*built, layout)
        session.write(kernel)
        done = [f"set up in {words.elapsed(took)}"] if spec.setup else []
        done += [f"layout {layout}"] if layout else []
        done += [f"with {words.listing(applied)} applied"] if applied else []
        if done:
            session.report(f"{'':>5}  {revision[:12]}  {', '.join(done)}{self._dut_suffix}")
        self._current = kernel
        return kernel

    @property
    def _dut_suffix(self) -> str:
        return f"; DUT {self.name}" if self.name else ""

    def _measure(self, trial: Trial, kernel: Kernel, run: int, boot: str) -> str:
        """Runs the command and logs its sample; returns its boot, a new one if `boot` is empty."""
        session, spec = self._session, self._session.log.spec
        done = search.runs_done(session.log.entries)
        changed = set() if done else self._worktree.changed_files()
        at = time.time()
        ended = self._run(trial, "the command", spec.command, session.timeout)
        value = command.measured_value(ended, spec.metric)
        with session.lock:
            entries = session.log.entries
            number = str(1 + search.runs_done(entries))
            began: list[Boot] = []
            if not boot:
                boot = str(1 + sum(isinstance(entry, Boot) for entry in entries))
                began = [Boot(boot, self.name, kernel.key, trial.revision, at, 0.0)]
            fields = (number, boot, self.name, METRIC, value, 0.0, (value,), (), (), "", at)
            session.write(*began, Sample(*fields, ended.seconds))
            part = f"  run {run + 1} of {trial.runs} of this trial" if run else ""
            line = f"{number:>5}  {trial.revision[:12]}  {words.plain(value):<12}{part}"
            session.report(f"{line}{self._dut_suffix}".rstrip())
            if number == "1":
                self._report_first(ended, changed)
        return boot

    def _report_first(self, ended: command.CompletedCommand, changed: set[str]) -> None:
        """Reports what may be wrong after the first run; `changed` are the files before it."""
        session, indent = self._session, " " * 7
        if not session.log.spec.metric and (several := command.last_of_several(ended.output)):
            session.report(
                f"{indent}The last number was read (--metric selects another): {several}"
            )
        if more := sorted(self._worktree.changed_files() - changed):
            name = shlex.quote(words.clean(more[0]))
            session.report(
                f"{indent}The command changed the tracked file {name}, and further runs start "
                f"from the changed file; `git checkout -- {name}` in the command restores it."
            )

    def _run(
        self,
        trial: Trial,
        name: str,
        words_of: tuple[str, ...],
        most: float = math.inf,
        *,
        end_children: bool = True,
    ) -> command.CompletedCommand:
        """Runs a command for a trial; it must succeed within `most` seconds.

        Raises MeasurementError, BudgetError and SearchStoppedError.
        """
        left = self._session.time_left()
        began = time.monotonic()
        variables = {
            "NETBISECT_REVISION": trial.revision,
            "NETBISECT_LAYOUT": str(trial.layout),
            "NETBISECT_DUT": self.name or "1",
        }
        try:
            ended = command.run(
                words_of,
                self._worktree.folder,
                variables,
                min(left, most),
                self._session.stop,
                end_children=end_children,
            )
        except subprocess.TimeoutExpired as error:
            took = time.monotonic() - began
            if left <= most:
                cut = MeasurementError(f"{name} was cut off by the budget", seconds=took)
                self._log_failure(trial, Stage.BENCH, cut, Reaction.RETRY)
                raise BudgetError from error
            why = f"{name} exceeded its --timeout of {words.elapsed(most)}"
            raise MeasurementError(why, again=True, seconds=took) from error
        if ended.status == 0:
            return ended
        why = f"{name} {ended.why}"
        if ended.status == command.SKIP:
            why = f"{name} skipped it with exit status {command.SKIP}"
        raise MeasurementError(
            why, again=ended.status != command.SKIP, log=ended.log, seconds=ended.seconds
        )

    def _record_failure(
        self, trial: Trial, stage: Stage, error: MeasurementError, *, again: bool = False
    ) -> None:
        """Logs that a revision in a layout could not be measured.

        Raises EndpointError for an end of the range, and DiskFullError. The skip is not logged, so
        that the search resumes here once the command is fixed.
        """
        self._check_disk(trial, error)
        session, spec = self._session, self._session.log.spec
        revision, layout = trial.revision, trial.layout
        ends = (spec.good, spec.line[-1].revision)
        if not again and not layout and revision in ends:
            end = "good" if revision == spec.good else "bad"
            lines = words.block(error.log).strip().splitlines()[-_SHOWN_LINES:]
            for line in lines if len(lines) > 1 else ():
                session.report(f"{'':>7}{line}".rstrip())
            raise EndpointError(
                f"the {end} end, {revision[:12]}, cannot be measured: {error}; "
                "the same call resumes once that is fixed"
            )
        self._log_failure(trial, stage, error, Reaction.RETRY if again else Reaction.SKIP)
        then = "retrying" if again else "skipped"
        then = f"layout {layout}, {then}" if layout else then
        session.report(f"{'':>5}  {revision[:12]}  {then}: {error}{self._dut_suffix}")

    def _log_failure(
        self, trial: Trial, stage: Stage, error: MeasurementError, reaction: Reaction
    ) -> None:
        session = self._session
        with session.lock:
            number = 1 + sum(isinstance(entry, Failure) for entry in session.log.entries)
            failed = (f"dud-{number}", trial.revision, stage, reaction, str(error), time.time())
            spent, layout = error.seconds, trial.layout
            session.write(Failure(*failed, spent, self.name, log=error.log, layout=layout))

    def _check_disk(self, trial: Trial, error: MeasurementError) -> None:
        """Raises DiskFullError if a failure is that of a full disk."""
        folder, output = self._worktree.folder, f"{error}{error.log}"
        full = any(message in output for message in _FULL)
        if full or shutil.disk_usage(folder).free < _FULL_BYTES:
            raise DiskFullError(
                f"{trial.revision[:12]} cannot be measured because a disk is full (the worktree is "
                f"{folder}): {error}; free some space, then the same call resumes"
            )
