"""`netbisect-lab doctor`: checks of every machine of the lab."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from netbisect.workers.cli import options, output
from netbisect.workers.config.lab import Lab
from netbisect.workers.doctor.doctor import examine


@click.command(epilog=options.example("doctor"))
@click.option("--testbed", default="", help="Only this testbed.")
@click.option(
    "--rates",
    is_flag=True,
    help="Also send packets for ten seconds through each router, with its running kernel.",
)
@options.as_json_option
@options.with_lab
def doctor(lab: Lab, testbed: str, rates: bool, as_json: bool) -> int:
    """Check every machine of the lab without changing anything."""
    checks = list(examine(lab, testbed=testbed, rates=rates))
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        widths = [max(len(getattr(check, name)) for check in checks) for name in ("where", "what")]
        for check in checks:
            mark = "ok  " if check.good else "FAIL"
            print(f"{mark} {check.where:{widths[0]}}  {check.what:{widths[1]}}  {check.found}")
        bad = sum(not check.good for check in checks)
        options.say(
            f"{len(checks)} checks, {bad} failed" if bad else f"{len(checks)} checks, all well"
        )
    return 0 if all(check.good for check in checks) else output.EXIT_LAB
