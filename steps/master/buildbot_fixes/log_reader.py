"""An aborted download of a log frees the thread that reads the log.

In Buildbot the thread waits for ever. A small master has a single thread for this: no log can be
read, no build ends, and the master does not stop. Fixed upstream, not released.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from buildbot.config.master import get_is_in_unit_tests
from buildbot.db import logs
from twisted.internet import defer, threads
from twisted.python.failure import Failure

from netbisect.steps.master.buildbot_fixes.fix import Fix

FIX = Fix(logs, "_async_iter_on_pool", "ea05ba830526")
T = TypeVar("T")
_READER_SECONDS = 600.0
"""Longest wait of the thread for its reader."""


@dataclass(frozen=True, slots=True)
class _End:
    """Follows the last item."""

    failure: Failure | None


class _Backlog:
    """Counts items between producer and consumer; wakes the producer when the consumer is gone."""

    def __init__(self, most: int, wait_at_end: bool) -> None:
        self._most = most
        self._wait_at_end = wait_at_end
        self._waiting = 0
        self._abandoned = False
        self._changed = threading.Condition()

    def may_add(self) -> bool:
        """Waits for room; False if the consumer is gone. For the producer's thread."""
        with self._changed:
            self._wait_for(lambda: self._most <= 0 or self._waiting < self._most)
            self._waiting += 1
            return not self._abandoned

    def drain(self) -> None:
        """Waits until all is consumed or the consumer is gone. For the producer's thread."""
        if self._wait_at_end:
            with self._changed:
                self._wait_for(lambda: self._waiting == 0)

    def _wait_for(self, ready: Callable[[], bool]) -> None:
        if not self._changed.wait_for(lambda: self._abandoned or ready(), _READER_SECONDS):
            raise TimeoutError(f"the reader of a log took no item for {_READER_SECONDS:g} s")

    def took_one(self) -> None:
        """Counts one item as consumed."""
        with self._changed:
            self._waiting -= 1
            self._changed.notify_all()

    def abandon(self) -> None:
        """Records that the consumer is done or gone."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()


async def iterate_on_pool(
    generator_sync: Callable[[], Generator[T, None, None]],
    *,
    reactor: Any,
    provider_threadpool: Any = None,
    max_backlog: int = 1,
    wait_backlog_consuption: bool = True,  # Buildbot's spelling
) -> AsyncGenerator[T, None]:
    """Runs a generator on a thread pool; frees its thread when the reader ends or goes away."""
    pool = provider_threadpool or reactor.getThreadPool()
    if get_is_in_unit_tests():
        from buildbot.test.fake.reactor import NonThreadPool  # noqa: PLC0415 - tests only

        if isinstance(pool, NonThreadPool):
            max_backlog, wait_backlog_consuption = 0, False
    queue: defer.DeferredQueue[Any] = defer.DeferredQueue()
    backlog = _Backlog(max_backlog, wait_backlog_consuption)

    def produce() -> None:
        for item in generator_sync():
            if not backlog.may_add():
                return
            reactor.callFromThread(queue.put, item)
        backlog.drain()

    def ended(result: object) -> None:
        queue.put(_End(result if isinstance(result, Failure) else None))

    threads.deferToThreadPool(reactor, pool, produce).addBoth(ended)
    try:
        while not isinstance(item := await queue.get(), _End):
            backlog.took_one()
            yield item
        if item.failure is not None:
            item.failure.raiseException()
    finally:
        # After the last item, after an error, and when the reader goes away.
        backlog.abandon()
