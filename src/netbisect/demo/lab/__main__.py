"""`python -m netbisect.demo.lab CONFIG.json`: runs the simulated lab until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from netbisect.demo.lab.config import LabError, load
from netbisect.demo.lab.server import LabSimulator
from netbisect.workers.config.toml import FileError


async def _run(lab: LabSimulator) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await lab.start()
        for name, door in lab.doors.items():
            print(f"{name}: ssh on 127.0.0.1 port {door.port}")
        print("ready", flush=True)
        await stop.wait()
    finally:
        await lab.stop()


def main() -> int:
    """The command line; returns the exit status."""
    if len(sys.argv) != 2:
        print("usage: python -m netbisect.demo.lab CONFIG.json", file=sys.stderr)
        return 2
    try:
        path = Path(sys.argv[1]).resolve()
        asyncio.run(_run(LabSimulator(load(path), path.parent)))
    except (FileError, LabError) as error:
        print(f"netbisect.demo.lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
