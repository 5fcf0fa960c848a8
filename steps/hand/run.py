"""Goes through a search: asks the engine, has the commands run, writes down both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from netbisect.bisect import plan
from netbisect.bisect.meanwhile import Wait
from netbisect.bisect.model import Bisection, Comparison, Finding, Visit
from netbisect.reports import words
from netbisect.steps.hand import search
from netbisect.steps.hand.dut import Desk, Dut
from netbisect.steps.hand.search import Entry
from netbisect.steps.hand.verdict import drawn


def finished(entries: list[Entry]) -> Finding | None:
    """How a search has ended; None while it has not."""
    asked, last = entries[0], entries[-1]
    assert isinstance(asked, search.Search)
    if isinstance(last, Finding) and search.next_question(asked, last, entries) is None:
        return last
    return None


class Runner:
    """One search, from where its log ends."""

    def __init__(self, desk: Desk, duts: Sequence[Dut]) -> None:
        """Nothing is run yet.

        Args:
            desk: With the log.
            duts: As many as the search has.
        """
        self._desk = desk
        self._log = desk.log
        self._duts = duts
        self._shown: list[str] = []

    def go(self) -> Finding:
        """Searches to the end.

        Raises:
            EndError: An end cannot be measured.
            OverBudgetError: The time is over.
            LogError: The log cannot be written.
            RepositoryError: A revision cannot be checked out.
        """
        one = len(self._duts) == 1
        while True:
            finding = self._alone(self._duts[0]) if one else self._together()
            follows = search.next_question(self._log.search, finding, self._log.entries)
            if follows is None:
                return finding
            self._log.append(follows)
            self._began(follows)

    def _question(self) -> Comparison | Bisection:
        """What the engine is asked now."""
        question = search.last_question(self._log.entries)
        if question is None:
            question = search.first_question(self._log.search)
            self._log.append(question)
        assert isinstance(question, Comparison | Bisection)
        return question

    def _alone(self, dut: Dut) -> Finding:
        """Takes the question that is open to its answer."""
        question, asked = self._question(), self._log.search
        while True:
            entries = self._log.entries
            evidence = search.evidence(asked, entries)
            move = plan.next_move(question, evidence, search.prices(asked, entries))
            if isinstance(move, Visit):
                self._show(move)
                self._desk.time_left()
                self._decide(move)
                dut.visit(move)
                continue
            self._decide(move)
            return move

    # ----------------------------------------------------------------------- several at work

    def _together(self) -> Finding:
        """The same with all devices; what is under way at the end is given up."""
        self._desk.stop.clear()
        question = self._question()
        with ThreadPoolExecutor(len(self._duts)) as pool:
            running = {
                dut.name: pool.submit(dut.visit, order.visit, order.runs)
                for dut in self._duts
                if (order := search.under_way(self._log.entries).get(dut.name)) is not None
            }
            try:
                while True:
                    with self._desk.lock:
                        found = self._order(question, pool, running)
                    if found is not None:
                        return found
                    _collect(running)
            finally:
                self._desk.stop.set()

    def _order(
        self,
        question: Comparison | Bisection,
        pool: ThreadPoolExecutor,
        running: dict[str, Future[None]],
    ) -> Finding | None:
        """Gives every idle device something to do, or finds the answer.

        The log is held meanwhile, so that each decision follows from the lines above it.
        """
        asked = self._log.search
        for dut in self._duts:
            if dut.name in running:
                continue
            entries = self._log.entries
            move = plan.next_together(
                question,
                search.evidence(asked, entries, dut.name),
                search.prices(asked, entries),
                search.meanwhile(entries, dut.name),
            )
            if isinstance(move, Wait):
                continue
            if isinstance(move, Visit):
                self._show(move)
                self._desk.time_left()
            self._decide(move)
            if not isinstance(move, Visit):
                self._desk.stop.set()
                return move
            running[dut.name] = pool.submit(dut.visit, move)
        return None

    # -------------------------------------------------------------------------- written and told

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
        self._desk.tell(
            f"The ends differ. Searching {words.count(len(question.candidates), 'commit')} for a "
            f"change of about {words.percent(self._log.search.sign * question.effect)}; one run "
            f"scatters by {100 * math.sqrt(question.noise.variance_of_boot()):.2g} %."
        )

    def _show(self, visit: Visit) -> None:
        if visit.belief is None:
            return
        lines = drawn(visit.belief)
        if lines != self._shown:
            self._desk.tell("\n".join(lines))
        self._shown = lines


def _collect(running: dict[str, Future[None]]) -> None:
    """Waits until a visit has ended; raises what ended it, if something did."""
    done, _ = wait(running.values(), return_when=FIRST_COMPLETED)
    for name in [name for name, future in running.items() if future in done]:
        running.pop(name).result()
