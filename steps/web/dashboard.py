"""The dashboard page."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from twisted.internet import defer, reactor
from twisted.python import log
from twisted.web.server import Request

from netbisect.reports.site import dashboard
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.web.dashboard_data import DashboardData
from netbisect.steps.web.responses import ProtectedResource, send
from netbisect.workers.config.lab import load_lab

_PATIENCE = 0.5
"""Seconds that a response waits for series; the next response has the rest."""


class DashboardResource(ProtectedResource):
    """`dashboard`."""

    _data: DashboardData | None = None
    _reading: defer.Deferred[None] | None = None

    async def respond(self, request: Request) -> None:
        data = self._data_of_service()
        if self._reading is None and await self.query(data.stale):
            self._reading = defer.ensureDeferred(self._read(data))
            self._reading.addErrback(lambda failure: log.err(failure, "the dashboard"))
        if self._reading is not None:
            with suppress(defer.TimeoutError):
                await _end_of(self._reading).addTimeout(_PATIENCE, reactor)
        page = await self.query(lambda ledger: dashboard.page(data.build(ledger)))
        send(request, "text/html", page)

    def _data_of_service(self) -> DashboardData:
        if self._data is None or self._data.settings is not self.settings:
            self._data = DashboardData(self.settings, load_lab(self.settings.lab))
        return self._data

    async def _read(self, data: DashboardData) -> None:
        """Reads changed series, each in a call of its own, so that other calls can interleave."""
        try:
            thread = database_thread(data.settings)
            for one in await thread.do(data.stale):
                await thread.do(partial(data.read, series=one))
        finally:
            self._reading = None


def _end_of(work: defer.Deferred[None]) -> defer.Deferred[None]:
    """Fires together with `work`, without taking its result."""
    end: defer.Deferred[None] = defer.Deferred()

    def fire(result: object) -> object:
        end.callback(None)
        return result

    work.addBoth(fire)
    return end
