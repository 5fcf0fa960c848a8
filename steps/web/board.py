"""The dashboard as a page of the web server."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from twisted.internet import defer, reactor
from twisted.python import log
from twisted.web.server import Request

from netbisect.reports import dashboard
from netbisect.steps.board import Board
from netbisect.steps.memory import memory
from netbisect.steps.web.answers import Guarded, send
from netbisect.workers.lab import load_lab

_PATIENCE = 0.5
"""Seconds that an answer waits for series that are read; what is read later, the next one has."""


class Shown(Guarded):
    """`dashboard`."""

    isLeaf = True

    _board: Board | None = None
    _reading: defer.Deferred[None] | None = None

    def render_GET(self, request: Request) -> int:
        """Answers with the page; it may lack series that take long to read."""

        async def answer(request: Request) -> None:
            board = self._of_service()
            late = await self.ask(board.late)
            if self._reading is None and late:
                self._reading = defer.ensureDeferred(self._read(board))
                self._reading.addErrback(lambda failure: log.err(failure, "the dashboard"))
            if self._reading is not None:
                with suppress(defer.TimeoutError):
                    await _end_of(self._reading).addTimeout(_PATIENCE, reactor)
            told = await self.ask(lambda ledger: dashboard.page(board.look(ledger)))
            send(request, "text/html", told)

        return self.guarded(request, answer)

    def _of_service(self) -> Board:
        if self._board is None or self._board.settings is not self.settings:
            self._board = Board(self.settings, load_lab(self.settings.lab))
        return self._board

    async def _read(self, board: Board) -> None:
        """Reads what has changed; between two series, others have their turn with the ledger."""
        try:
            ledger = memory(board.settings)
            for one in await ledger.do(board.late):
                await ledger.do(partial(board.read, late=one))
        finally:
            self._reading = None


def _end_of(work: defer.Deferred[None]) -> defer.Deferred[None]:
    """Fires with `work`, whose own result is for others."""
    end: defer.Deferred[None] = defer.Deferred()

    def told(result: object) -> object:
        end.callback(None)
        return result

    work.addBoth(told)
    return end
