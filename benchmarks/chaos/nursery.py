"""A fork server with all modules loaded, to restart a master in half a second.

`python -m benchmarks.chaos.nursery` reads commands from standard input, one JSON object per line,
and answers each with a process ID.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from twisted.internet import selectreactor

if __name__ == "__main__":
    # The reactor is shared by all that is forked: it must keep nothing in the kernel.
    selectreactor.install()

import buildbot.master
import buildbot_worker.bot
from buildbot_worker import pb
from buildbot_worker.scripts import start as worker_start
from twisted.internet import reactor
from twisted.scripts import twistd

import netbisect.cli.main
import netbisect.steps.master.mailer
import netbisect.steps.scheduler.change_sources
import netbisect.steps.scheduler.scheduler
import netbisect.steps.web
import netbisect.steps.web.request_form
from benchmarks.chaos import hooks
from netbisect.demo import mailbox
from netbisect.demo.lab.__main__ import main as lab

_AGAIN = 0.1
"""Seconds between connection attempts of a worker."""
LOADED = (buildbot.master, buildbot_worker.bot, netbisect.steps)
"""Modules that load slowly."""


def _master(folder: str, script: str) -> None:
    hooks.in_master(Path(script))
    sys.argv = ["twistd", "--nodaemon", "--no_save", "--python=buildbot.tac"]
    os.chdir(folder)
    twistd.run()


def _worker(folder: str) -> None:
    # It tries again as often as a master may have died: what is only waited for shows nothing.
    pb.backoffPolicy = lambda: lambda _: _AGAIN
    worker_start.startWorker(folder, quiet=False, nodaemon=True)


def _lab(simulator: str, script: str) -> None:
    hooks.in_lab(Path(script))
    sys.argv = ["lab", simulator]
    sys.exit(lab())


def _mailbox(port: str, folder: str, script: str) -> None:
    hooks.in_mailbox(Path(script))
    Path(folder).mkdir(exist_ok=True)
    asyncio.run(mailbox.serve(int(port), Path(folder)))


KINDS: dict[str, Callable[..., None]] = {
    "master": _master,
    "worker": _worker,
    "lab": _lab,
    "mailbox": _mailbox,
}


def _become(kind: str, arguments: list[str], log: str) -> None:
    """The forked process, in a process group of its own; never returns."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with Path(log).open("ab") as stream, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    _own_waker()
    KINDS[kind](*arguments)


def _own_waker() -> None:
    """A pipe for threads to wake this reactor; that of the nursery wakes any child."""
    shared = reactor.waker
    reactor._internalReaders.discard(shared)  # noqa: SLF001 - reactors are not made for forks
    reactor.removeReader(shared)
    reactor.waker = None
    reactor.installWaker()


def main() -> None:
    """Serves until end of file."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap children at once
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _become(order["kind"], order["arguments"], order["log"])
                status = 0
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else 1
            except BaseException:  # noqa: BLE001 - as the interpreter tells it
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(status)
        print(child, flush=True)


if __name__ == "__main__":
    main()
