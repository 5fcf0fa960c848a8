"""Runs numeric code and renderers in a process of their own.

The master must respond within milliseconds, and it forks; a fork while OpenBLAS threads compute can
deadlock. So the master does not load NumPy, SciPy and matplotlib, but calls modules through
`RemoteModule`. After `use_compute_process()` a child process executes these calls; without it, as
in commands, the calling process does. Arguments and results are pickled in both cases.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

LIMIT_SECONDS = 300.0
"""Time limit of a call."""
_log = logging.getLogger(__name__)


class ComputeError(Exception):
    """A call was interrupted."""


class StoppingError(ComputeError):
    """The service is stopping."""


class ComputeProcess:
    """A child process that executes calls one at a time, and is restarted after failures."""

    def __init__(self, limit: float = LIMIT_SECONDS, cache: Path | None = None) -> None:
        self.limit = limit
        self.cache = cache
        """Folder of matplotlib for its list of fonts; None for that of the user."""
        self.on_timeout: Callable[[str], object] = lambda _: None
        """Called with the name of a call that exceeded the limit."""
        self._lock = threading.Lock()
        self.closed = False
        self._pool: ProcessPoolExecutor | None = None

    def call(self, module: str, function: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a function in the child process and blocks until it returns.

        Raises the exceptions of the function, and ComputeError if it exceeded the limit, the
        process died twice, or `close` was called.
        """
        name = f"{module}.{function}"
        for last in (False, True):
            pool = self._started()
            try:
                future = pool.submit(_perform, module, function, args, kwargs)
                return future.result(self.limit)
            except TimeoutError:
                self.kill(pool)
                self.on_timeout(name)
                raise ComputeError(f"{name} did not end within {self.limit:g} s") from None
            except (BrokenExecutor, CancelledError) as error:
                self.kill(pool)
                if last:
                    raise ComputeError(f"{name}: the compute process died twice") from error
                _log.warning("%s: the compute process died and is restarted", name)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Ends the child process and rejects further calls."""
        self.closed = True
        self.kill()

    def kill(self, pool: ProcessPoolExecutor | None = None) -> None:
        """Kills the child process of a pool, by default of the current one."""
        with self._lock:
            if pool is None:
                pool = self._pool
            if pool is None:
                return
            if self._pool is pool:
                self._pool = None
            for process in [*(pool._processes or {}).values()]:  # noqa: SLF001 - public from 3.14
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self.closed:
                raise StoppingError("the service is stopping")
            if self._pool is None:
                spawn = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, spawn, prepare_child, (self.cache,))
            return self._pool


class RemoteModule:
    """A proxy for a module whose functions run in the compute process, if there is one."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, function: str) -> Callable[..., Any]:
        """Returns a function; its arguments and result must be picklable."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if _process is None:
                # Thus a call that works in a command also works in the service.
                return _pickled(_perform(self._module, function, *_pickled((args, kwargs))))
            return _process.call(self._module, function, *args, **kwargs)

        return call


_process: ComputeProcess | None = None


def use_compute_process(limit: float = LIMIT_SECONDS, cache: Path | None = None) -> ComputeProcess:
    """Sends further calls of `RemoteModule` to a child process, which the first one starts."""
    global _process  # noqa: PLW0603 - one per process
    if _process is None or _process.closed:
        _process = ComputeProcess()
    _process.limit, _process.cache = limit, cache
    return _process


def _pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own data


def _perform(module: str, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(module), function)(*args, **kwargs)


def prepare_child(cache: Path | None = None) -> None:
    """In the child: ignores SIGINT, and exits with the parent; `cache` as of `ComputeProcess`."""
    if cache is not None:
        # Services often have no writable home folder, where the list would be made at each start.
        os.environ.setdefault("MPLCONFIGDIR", str(cache))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
