"""`netbisect ministat`: FreeBSD's ministat(1), in all its versions."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from netbisect.reports.render.ministat import Variant, ministat
from netbisect.reports.render.ministat_input import DELIMITERS, read_points
from netbisect.reports.render.student_t import CONFIDENCES

_STDIN = "<stdin>"
_WIDTH = 74
_REFUSED = 2
_LEVELS = [f"{level:g}" for level in CONFIDENCES]


@click.command("ministat", epilog="Example: netbisect ministat -s -w 72 good.pps bad.pps")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("-A", "no_plot", is_flag=True, help="Statistics only, no graph.")
@click.option(
    "-C", "column", metavar="column", default=1, type=click.IntRange(1), help="Column (default: 1)."
)
@click.option(
    "-c",
    "confidence",
    metavar="level",
    default="95",
    type=click.Choice(_LEVELS),
    callback=lambda _, __, level: float(level),
    help=f"Confidence in percent: {', '.join(_LEVELS)}.",
)
@click.option(
    "-d", "delimiters", metavar="delimiters", default=DELIMITERS, help="Default: space and tab."
)
@click.option("-n", "no_test", is_flag=True, help="Raw statistics only, no graph and no test.")
@click.option("-q", "quiet", is_flag=True, help="No names and no table head.")
@click.option("-s", "separate", is_flag=True, help="Separate avg/median/stddev bars.")
@click.option(
    "-w",
    "width",
    metavar="width",
    type=click.IntRange(0),
    help=f"Width of the graph (default: the terminal's, or {_WIDTH}).",
)
@click.option(
    "--variant",
    default=Variant.CURRENT.value,
    show_default=True,
    type=click.Choice([one.value for one in Variant]),
    callback=lambda _, __, name: Variant(name),
    help="Version of ministat; the numbers differ.",
)
def command(
    files: tuple[str, ...],
    column: int,
    delimiters: str,
    width: int | None,
    *,
    no_plot: bool,
    no_test: bool,
    **style: Any,
) -> None:
    """Compare columns of numbers; the output equals that of FreeBSD's ministat(1).

    Every FILE is compared with the first, by Student's t with pooled variance; `-`, or no FILE, is
    standard input. Variant 2013 is the program of FreeBSD 10 and of Debian, 2015 that of
    FreeBSD 11, 2017 that of 12, and current that of 13.2 and later.
    """
    if not delimiters:
        raise click.UsageError("Can't use empty delimiter string.")
    try:
        datasets = [
            (name, read_points(data, name, column=column, delimiters=delimiters))
            for name, data in map(_read, files or (_STDIN,))
        ]
        text = ministat(
            datasets,
            width=_terminal_width() if width is None else width,
            plot=not (no_plot or no_test),
            test=not no_test,
            **style,
        )
    except ValueError as error:
        _fail(str(error))
    click.echo(os.fsencode(text), nl=False)


def _read(file: str) -> tuple[str, bytes]:
    """The displayed name and the content of a file."""
    if file in {_STDIN, "-"}:
        return file, sys.stdin.buffer.read()
    try:
        return file, Path(file).read_bytes()
    except OSError as error:
        _fail(f"Cannot open {file}: {error.strerror}")


def _fail(sentence: str) -> NoReturn:
    click.echo(sentence.encode("utf-8", "surrogateescape"), err=True)
    sys.exit(_REFUSED)


def _terminal_width() -> int:
    """Columns of standard output, less two for the frame; 74 if it is not a terminal."""
    return shutil.get_terminal_size().columns - 2 if sys.stdout.isatty() else _WIDTH
