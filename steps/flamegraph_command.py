"""`netbisect report flamegraph`: stacks as SVG, or what changed between two profiles."""

from __future__ import annotations

import os
from pathlib import Path

import click

from netbisect.bisect import stacks
from netbisect.reports import flamegraph, words

_MOST_BYTES = 256 << 20
_PLACE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "flamegraph",
    epilog="Example: netbisect report flamegraph parent.folded culprit.folded -o changed.svg",
)
@click.argument("before", type=_PLACE)
@click.argument("after", type=_PLACE, required=False)
@click.option("--title", help="What the drawing is called (default: the names of the files).")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The SVG file.",
)
def command(before: Path, after: Path | None, title: str | None, output: Path) -> None:
    """Draw a flame graph; of two profiles, what became hotter from the first to the second.

    The files are folded stacks, a line `outer;inner 12` for each, or the callgraph that
    `pmcstat -G` writes. The drawing needs no script, and names a box when it is pointed at.
    """
    profiles = [_read(path) for path in (before, after) if path is not None]
    if after is None:
        drawing = flamegraph.flame(profiles[0], name="flame", title=title or before.name)
    else:
        drawing = flamegraph.difference(
            *profiles, name="flame", title=title or f"{before.name} and {after.name}"
        )
    try:
        output.write_bytes(flamegraph.document(drawing))
    except OSError as error:
        raise click.ClickException(
            f"{output}: cannot be written: {os.strerror(error.errno or 0)}"
        ) from error
    told = " and ".join(words.count(stacks.total(one), "sample") for one in profiles)
    click.echo(f"{output}: {told}")


def _read(path: Path) -> dict[stacks.Stack, int]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise click.ClickException(
                f"{path}: {path.stat().st_size >> 20} MiB are no profile; "
                f"at most {_MOST_BYTES >> 20} MiB would be right"
            )
        return stacks.read(path.read_text(encoding="utf-8", errors="replace"))
    except stacks.StacksError as error:
        raise click.ClickException(f"{path}: {error}") from error
    except OSError as error:
        raise click.ClickException(
            f"{path}: cannot be read: {os.strerror(error.errno or 0)}"
        ) from error
