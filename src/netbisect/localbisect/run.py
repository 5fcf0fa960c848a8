"""The loop of a search: gets a decision, logs it, and runs the command."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from netbisect.bisect.model.in_flight import Wait
from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.results import Result, Trial
from netbisect.localbisect import explain, search
from netbisect.localbisect.dut import LocalDut, SearchSession
from netbisect.localbisect.log import unread_marks
from netbisect.localbisect.result import label
from netbisect.localbisect.search import Entry
from netbisect.reports.render import words


def final_result(entries: list[Entry]) -> Result | None:
    """The result of a search that has ended, else None."""
    spec, last = search.spec_of(entries), entries[-1]
    if isinstance(last, Result) and search.next_job(spec, last, entries) is None:
        return last
    return None


class SearchRunner:
    """Runs a search from the end of its log."""

    def __init__(self, session: SearchSession, duts: Sequence[LocalDut]) -> None:
        """Runs nothing yet."""
        self._session = session
        self._log = session.log
        self._duts = duts

    def go(self) -> Result:
        """Runs until the search ends.

        Raises:
            EndpointError: An end cannot be measured.
            DiskFullError: A disk is full.
            BudgetError: The budget is spent.
            LogError: The log cannot be written.
            RepositoryError: A revision cannot be checked out.
        """
        while True:
            finding = self._complete_job()
            follows = search.next_job(self._log.spec, finding, self._log.entries)
            if follows is None:
                return finding
            self._log.append(follows)
            self._report_start(follows)

    def _complete_job(self) -> Result:
        """Completes the current job with all devices; aborts trials that are no longer needed."""
        self._session.stop.clear()
        job = search.last_job(self._log.entries)
        if job is None:
            job = search.comparison_of_ends(self._log.spec)
            self._log.append(job)
        self._read_marks()
        with ThreadPoolExecutor(len(self._duts)) as pool:
            pending = search.pending_trials(self._log.entries)
            running = {
                dut.name: pool.submit(dut.run_trial, *pending[dut.name])
                for dut in self._duts
                if dut.name in pending
            }
            try:
                while True:
                    with self._session.lock:
                        found = self._start_trials(job, pool, running)
                    if found is not None:
                        return found
                    _wait_for_trial(running)
            finally:
                self._session.stop.set()

    def _start_trials(
        self,
        job: CompareJob | BisectJob,
        pool: ThreadPoolExecutor,
        running: dict[str, Future[None]],
    ) -> Result | None:
        """Starts a trial on every idle device, or returns the result.

        The caller holds the lock, so that each decision depends only on the lines above it.
        """
        self._read_marks()
        for dut in self._duts:
            if dut.name in running:
                continue
            entries = self._log.entries
            move = search.next_move(self._log.spec, job, entries, dut.name)
            if isinstance(move, Wait):
                continue
            if not isinstance(move, Trial):
                self._session.stop.set()
                if type(entries[-1]) is not type(move):  # else a killed call has logged it
                    self._log.append(move)
                return move
            self._session.report(explain.decision_line(entries, move))
            self._session.time_left()
            self._log.append(replace(move, posterior=None))  # derived from the lines above
            running[dut.name] = pool.submit(dut.run_trial, move)
        return None

    def _read_marks(self) -> None:
        """Logs new marks, so that decisions depend on the log alone."""
        for mark in unread_marks(self._log):
            self._log.append(mark)
            self._session.report(f"{label(self._log.spec, mark.revision)} was {mark}.")

    def _report_start(self, job: BisectJob) -> None:
        self._session.report(
            f"The ends differ. Searching {words.count(len(job.candidates), 'commit')} for a "
            f"change of about {words.percent(self._log.spec.sign * job.effect)}; standard "
            f"deviation of a run {100 * math.sqrt(job.noise.variance_of_boot()):.2g} %."
        )


def _wait_for_trial(running: dict[str, Future[None]]) -> None:
    """Waits for a trial to end and raises its exception, if any."""
    done, _ = wait(running.values(), return_when=FIRST_COMPLETED)
    for name in [name for name, future in running.items() if future in done]:
        running.pop(name).result()
