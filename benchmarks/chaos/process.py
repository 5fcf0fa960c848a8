"""Starts a process of a service with hooks: `python -m benchmarks.chaos.process KIND FOLDER`.

KIND is `master`, `lab`, `mailbox` or `worker-NAME`; FOLDER is the folder of the service.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from buildbot_worker import pb
from buildbot_worker.scripts import start as worker_start
from twisted.scripts import twistd

from benchmarks.chaos import hooks
from netbisect.demo import mailbox
from netbisect.demo.lab.__main__ import main as lab
from netbisect.steps.service import control
from netbisect.steps.service.settings import load_settings

_RECONNECT_SECONDS = 0.1
"""Seconds between connection attempts of a worker."""


def _master(place: Path) -> None:
    hooks.in_master(place)
    sys.argv = ["twistd", "--nodaemon", "--no_save", f"--python={control.TAC}"]
    os.chdir(place)
    twistd.run()


def _worker(folder: Path) -> None:
    # Reconnects soon after a kill of the master: waiting tests nothing.
    pb.backoffPolicy = lambda: lambda _: _RECONNECT_SECONDS
    worker_start.startWorker(str(folder), quiet=False, nodaemon=True)


def _lab(place: Path) -> None:
    hooks.in_lab(place)
    sys.argv = ["lab", str(place / "lab" / "simulator.json")]
    sys.exit(lab())


def _mailbox(place: Path) -> None:
    hooks.in_mailbox(place)
    mails = place / "mails"
    mails.mkdir(exist_ok=True)
    asyncio.run(mailbox.serve(load_settings(place / control.SETTINGS).mail.port, mails))


def main(kind: str, place: Path) -> None:
    kinds = {"master": _master, "lab": _lab, "mailbox": _mailbox}
    if kind in kinds:
        kinds[kind](place)
    else:
        _worker(place / "workers" / kind.removeprefix("worker-"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
