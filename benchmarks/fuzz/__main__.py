"""`python -m benchmarks.fuzz --seconds N [--parser X]`: looks for inputs that a parser dies of.

Where atheris is installed (`pip install 'netbisect[fuzz]'`; Linux), it looks for inputs that reach
branches that none has reached before; elsewhere meals are changed by chance alone. After that,
pieces of meals are repeated up to 10 MB. A crash is an exception that is not the parser's own, an
input of a few kilobytes that takes 10 s, one of 10 MB that takes 60 s, or memory of 2 GB.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.fuzz.judge import changed, fault, stretched
from benchmarks.fuzz.modules import MODULES
from benchmarks.fuzz.parsers import PARSERS, Parser

_SHORT_SECONDS = 10.0
_LONG_SECONDS = 60.0
_LONG_BYTES = 10_000_000
_LONG_SHARE = 0.25
"""Of the time of a parser that long inputs are given."""
_MEMORY = 2 << 30
_LARGEST = 8192
"""Bytes of an input that atheris makes."""
_SHOWN = 2000


@dataclass
class Result:
    """What became of one parser."""

    parser: str
    guided: bool
    """Whether coverage led the way."""
    inputs: int = 0
    reached: int = 0
    """Features of the parser's modules, as libFuzzer counts them: branches, and how often."""
    long_inputs: int = 0
    crashes: int = 0


def _crash(result: Result, why: str, data: bytes, folder: Path) -> None:
    result.crashes += 1
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{result.parser.replace(' ', '-')}-{result.crashes}"
    place.write_bytes(data)
    print(f"{result.parser}: {place}\n{why}", file=sys.stderr)


def _guided(result: Result, parser: Parser, seconds: float, folder: Path) -> None:
    """By atheris, in a process of its own."""
    with tempfile.TemporaryDirectory() as work:
        corpus = Path(work) / "corpus"
        corpus.mkdir()
        for number, meal in enumerate(parser.meals):
            (corpus / str(number)).write_bytes(meal)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.fuzz.guided", result.parser, str(corpus)),
                f"-max_total_time={max(1, round(seconds))}",
                f"-timeout={_SHORT_SECONDS:.0f}",
                f"-rss_limit_mb={_MEMORY >> 20}",
                f"-max_len={_LARGEST}",
                f"-artifact_prefix={work}/",
                "-print_final_stats=1",
            ],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        said = done.stdout + done.stderr
        units = re.search(r"number_of_executed_units: (\d+)", said)
        result.inputs = int(units[1]) if units else 0
        result.reached = max(map(int, re.findall(r"\bft: (\d+)", said)), default=0)
        found = [path for path in Path(work).iterdir() if path.is_file()]
        for path in found:
            why = said[said.rfind("=== Uncaught") :] if "=== Uncaught" in said else said[-_SHOWN:]
            _crash(result, why[:_SHOWN], path.read_bytes(), folder)
        if done.returncode and not found:
            raise SystemExit(f"atheris ended with status {done.returncode}:\n{said[-_SHOWN:]}")


def _by_chance(
    result: Result, parser: Parser, seconds: float, luck: random.Random, folder: Path
) -> None:
    end = time.monotonic() + seconds
    for data in changed(parser.meals, luck):
        if time.monotonic() > end:
            return
        result.inputs += 1
        why = fault(parser, data, _SHORT_SECONDS)
        if why:
            _crash(result, why, data, folder)
            return


def _long(
    result: Result, parser: Parser, seconds: float, luck: random.Random, folder: Path
) -> None:
    end = time.monotonic() + seconds
    for data in stretched(parser.meals, _LONG_BYTES, luck):
        if time.monotonic() > end and result.long_inputs:
            return
        result.long_inputs += 1
        why = fault(parser, data, _LONG_SECONDS)
        if why:
            _crash(result, why, data, folder)
            return


def run(name: str, seconds: float, seed: int, folder: Path) -> Result:
    """One parser, for so many seconds; it is left when it has crashed."""
    parser, luck = PARSERS[name], random.Random(seed)  # noqa: S311 - no secrets are made of it
    result = Result(name, importlib.util.find_spec("atheris") is not None)
    short = (1 - _LONG_SHARE) * seconds
    if result.guided:
        _guided(result, parser, short, folder)
    else:
        _by_chance(result, parser, short, luck, folder)
    if not result.crashes:
        _long(result, parser, _LONG_SHARE * seconds, luck, folder)
    return result


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each parser (60)")
    parser.add_argument("--parser", action="append", choices=list(MODULES), help="this one alone")
    parser.add_argument("--seed", type=int, default=1, help="of what is left to chance (1)")
    parser.add_argument("--crashes", type=Path, default=Path("crashes"), help="folder for inputs")
    parser.add_argument("--json", action="store_true", help="print a list and no table")
    return parser.parse_args()


def main() -> int:
    """Prints what became of each; 1 when one has crashed."""
    chosen = _arguments()
    resource.setrlimit(resource.RLIMIT_DATA, (2 * _MEMORY, resource.RLIM_INFINITY))
    results = []
    for name in chosen.parser or PARSERS:
        results.append(run(name, chosen.seconds, chosen.seed, chosen.crashes))
        one = results[-1]
        if not chosen.json:
            print(
                f"{one.parser:<16}{one.inputs:>12,} inputs {one.reached:>8,} reached "
                f"{one.long_inputs:>6,} of 10 MB {one.crashes:>4} crashes",
                flush=True,
            )
    if chosen.json:
        print(json.dumps([asdict(one) for one in results], indent=2))
    elif results[0].guided:
        print(f"atheris {importlib.metadata.version('atheris')}")
    return int(any(one.crashes for one in results))


if __name__ == "__main__":
    sys.exit(main())
