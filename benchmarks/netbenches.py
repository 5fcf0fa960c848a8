"""Checks a folder of raw netbenches logs; counts the rejected runs by reason.

    python -m benchmarks.netbenches FOLDER

FOLDER is a clone of github.com/ocochard/netbenches, or a part of it. A run is a .receiver file with
the .sender file of the same name. Netbenches does not record the configured rate:
the median rate of the sender is used instead, so that only unsteady senders are rejected for their
rate. Checks that need the state of the machines are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from netbisect.bisect.model.sample_validity import MachineState, RunRecord, problems
from netbisect.workers.measure import pktgen

_UNKNOWN = MachineState()
_NUMBER = re.compile(r"[-+]?\d[\d,.]*")


def verdict(sender: str, receiver: str) -> list[str]:
    """Problems of a run, by the output of both ends."""
    generator, sink = "the generator", "the receiver"
    pps, offered, found = pktgen.evaluate(pktgen.Outputs({generator: sender}, {sink: receiver}))
    record = RunRecord(
        pps=pps,
        offered_pps=offered,
        line_rate=offered[generator],
        offered={generator: [rate for rate in pktgen.all_rates(sender) if rate > 0]},
        received={sink: pktgen.all_rates(receiver)},
        before=_UNKNOWN,
        after=_UNKNOWN,
    )
    return found + problems(record)


def runs(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Files of sender and receiver of each run, sorted by path; incomplete runs are left out."""
    for receiver in sorted(folder.rglob("*.receiver")):
        sender = receiver.with_suffix(".sender")
        if sender.is_file():
            yield sender, receiver


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0])
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    reasons: Counter[str] = Counter()
    total = accepted = 0
    for pair in runs(folder):
        found = verdict(*(path.read_text(errors="replace") for path in pair))
        total += 1
        accepted += not found
        reasons.update({_NUMBER.sub("N", one) for one in found})
    click.echo(f"{total} runs, {accepted} accepted, {total - accepted} refused")
    for reason, number in reasons.most_common():
        click.echo(f"{number:6} {reason}")


if __name__ == "__main__":
    main()
