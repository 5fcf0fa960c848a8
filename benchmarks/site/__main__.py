"""Measures the time of `netbisect site` for a large lab.

    python -m benchmarks.site

The lab has 300 series: 12 testbeds with 25 scenarios each, 1,095 nights of 5 boots (1.6 million
samples), and 36 drops, each with a retest, an alert and a search. Creating the ledger takes longer
than the site; --keep stores it for later runs.

Both processor time and elapsed time are printed: other load affects mainly the latter.
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
from pathlib import Path

import click

from benchmarks.site.ledger import Plan, fill

_COMMAND = [sys.executable, "-c", "from netbisect.cli.main import main; main()", "site"]


def measure(address: str, out: Path) -> dict[str, float]:
    """Runs the command once: time, peak memory and sizes of the pages."""
    began = time.monotonic()
    subprocess.run(
        [*_COMMAND, str(out), "--database", address], check=True, stdout=subprocess.DEVNULL
    )
    seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    pages = [path.stat().st_size for path in out.glob("*.html")]
    return {
        "processors": os.cpu_count() or 1,
        "seconds": round(seconds, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "megabytes_of_a_process": round(used.ru_maxrss * unit / 2**20),
        "pages": len(pages),
        "page_megabytes": round(sum(pages) / 1e6, 1),
        "largest_page_kilobytes": round(max(pages) / 1e3),
    }


@click.command()
@click.option("--testbeds", default=12, show_default=True)
@click.option("--nights", default=1095, show_default=True)
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Use or create the ledger in this file."
)
def main(testbeds: int, nights: int, keep: Path | None) -> None:
    """Measures the site of a large lab."""
    plan = Plan(testbeds=testbeds, nights=nights, drops=3 * testbeds)
    with tempfile.TemporaryDirectory(prefix="netbisect-site-") as folder:
        path = keep or Path(folder, "ledger.sqlite")
        if not path.is_file():
            made = Path(folder, "made.sqlite")
            fill(f"sqlite:///{made}", plan).engine.dispose()
            shutil.move(made, path)
        result = {"series": testbeds * plan.scenarios, "nights": nights}
        result |= measure(f"sqlite:///{path}", Path(folder, "out"))
    click.echo(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
