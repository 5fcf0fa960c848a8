"""How long `netbisect site` takes for a large lab: the first time, and after a night.

    python -m benchmarks.site --json

A lab of 300 series: 12 testbeds with 25 scenarios each, 1,095 nights of 5 boots, which is 1.6
million samples, and 36 drops, each with its retest, its alert and its search. The ledger is made
first, which takes longer than all that is measured; with --keep it is kept for the next time.

Every run is a process of its own. Its seconds are told as they pass and as the processors work,
for a machine that has other things to do shows in the first and hardly in the second.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import click

from benchmarks.site.ledger import BRANCH, Plan, fill, head, night, revision
from netbisect.steps.memory import open_ledger

_COMMAND = [sys.executable, "-c", "from netbisect.steps.cli import main; main()", "site"]


def installed(folder: Path) -> dict[str, str]:
    """The environment of a program whose modules are compiled, as an installed one's are.

    Where nobody may write beside the modules, or an environment forbids it, to compile them again
    for every run takes longer than what is measured.
    """
    found = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder)}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    modules = "import netbisect.steps.site_command, netbisect.steps.site_run"
    subprocess.run([sys.executable, "-c", modules], env=found, check=True)
    return found


def measure(address: str, out: Path, environment: dict[str, str]) -> dict[str, float]:
    """Runs the command once: seconds, seconds of the processors, and megabytes of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = [*_COMMAND, str(out), "--database", address]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(work, 1),
        "megabytes": round(after.ru_maxrss * unit / 2**20),
    }


def play(address: str, plan: Plan, out: Path) -> dict[str, Any]:
    """The first run, one without news, and one after nights of one testbed and of all."""
    told: dict[str, Any] = {"series": plan.testbeds * plan.scenarios, "nights": plan.nights}
    environment = installed(out.with_name("compiled"))
    told["full"] = measure(address, out, environment)
    pages = [path.stat().st_size for path in out.glob("*.html")]
    told |= {
        "processors": os.cpu_count(),
        "pages": len(pages),
        "site_megabytes": round(sum(pages) / 1e6, 1),
        "largest_page_kilobytes": round(max(pages) / 1e3),
    }
    told["without_news"] = measure(address, out, environment)
    ledger = open_ledger(address)
    last = max(ledger.numbers()[BRANCH].values())
    number = next(night for night in count() if head(night) > last)
    assert revision(head(number)) not in ledger.numbers()[BRANCH]
    night(ledger, plan, number, 1)
    told["after_a_night_of_one_testbed"] = measure(address, out, environment)
    night(ledger, plan, number + 1, plan.testbeds)
    told["after_a_night_of_all"] = measure(address, out, environment)
    return told


@click.command()
@click.option("--testbeds", default=12, show_default=True)
@click.option("--nights", default=1095, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Take the ledger from this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a line for each run.")
def main(testbeds: int, nights: int, keep: Path | None, *, as_json: bool) -> None:
    """Measures the site of a large lab."""
    plan = Plan(testbeds=testbeds, nights=nights, drops=3 * testbeds)
    with tempfile.TemporaryDirectory(prefix="netbisect-site-") as folder:
        path = Path(folder, "ledger.sqlite")
        if keep is not None and keep.is_file():
            shutil.copy(keep, path)
        else:
            fill(f"sqlite:///{path}", plan).engine.dispose()
            if keep is not None:
                shutil.copy(path, keep)
        told = play(f"sqlite:///{path}", plan, Path(folder, "out"))
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for name, value in told.items():
        click.echo(f"{name}: {value}")


if __name__ == "__main__":
    main()
