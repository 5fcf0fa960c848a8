"""Shared options and helpers of the netbisect-lab commands."""

from __future__ import annotations

import functools
import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from netbisect.bisect.model.metric import scenario_of
from netbisect.workers.build.artifacts import FACT, ArtefactError, ArtefactStore, read_fact
from netbisect.workers.cli.output import EXIT_FAILED
from netbisect.workers.config.lab import Lab, load_lab
from netbisect.workers.config.scenario import Scenario, load_scenario, load_scenario_folder

PROGRAM = "netbisect-lab"
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def say(text: str) -> None:
    """Prints a message on standard error."""
    click.echo(text, err=True)


PATH = click.Path(path_type=Path)


class FiniteRange(click.FloatRange):
    """A FloatRange without infinity and NaN."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Converts and checks the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class CommitHash(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The full hash of a commit, optionally with a layout; other names are ambiguous over time."""

    name = "hash"

    def __init__(self, *, layouts: bool = False) -> None:
        self._layouts = layouts

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Checks the text."""
        commit, mark, layout = value.partition("#") if self._layouts else (value, "", "")
        if not _HASH.fullmatch(commit):
            self.fail(
                f"{value!r}: expected the full hash of a commit, such as "
                "`git rev-parse` and `netbisect revision` print it",
                param,
                ctx,
            )
        if mark and not (layout.isascii() and layout.isdigit()):
            self.fail(f"{value!r}: expected the number of a layout after #", param, ctx)
        return str(value)


POSITIVE = FiniteRange(min=0, min_open=True)
COUNT = click.IntRange(min=1)
SEVERAL = click.IntRange(min=2)
"""Two or more, as needed for an estimate of noise."""

testbed_option = click.option(
    "--testbed", required=True, help="Name of the testbed in the lab file."
)
logs_option = click.option(
    "--logs",
    type=PATH,
    help="Folder for console and pkt-gen output (default: a new one in netbisect-logs).",
)
scenarios_option = click.option(
    "--scenario",
    "names",
    multiple=True,
    metavar="NAME|FOLDER",
    help="A name, or a folder with scenario.toml, such as ./tcp. "
    "May be given several times (default: all scenarios of the testbed in the lab file).",
)


as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of a table."
)


def with_kernel(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options for a kernel to boot, its testbed and the folder of logs.

    The command gets the lab, the testbed, the kernel, its archive, which is not removed meanwhile,
    and that folder.
    """

    @functools.wraps(command)
    def run(
        *,
        testbed: str,
        kernel: str,
        kernels: Path | None,
        logs: Path | None,
        **options: Any,  # noqa: ANN401 - those of any command
    ) -> int:
        lab = load_lab(click.get_current_context().find_root().obj)
        store = ArtefactStore(kernels or lab.kernels)
        with store.lease(kernel) as archive:
            try:
                fact = read_fact(archive.parent / FACT)
                folder = folder_of_logs(logs)
                status = command(lab, lab.testbed(testbed), fact, archive, folder, **options)
            except ArtefactError as error:
                if kernels:
                    raise
                # Damaged, as by a power cut: the service resends a kernel without a fact.
                (archive.parent / FACT).unlink(missing_ok=True)
                say(f"{PROGRAM}: {error}")
                return EXIT_FAILED
        if not kernels:  # a store named on the command line is not ours to tidy
            prune(store, lab, kernel)
        return status

    for option in (
        logs_option,
        click.option("--kernels", type=PATH, help="Artefact store (default: the lab file's)."),
        click.option("--kernel", required=True, help="Key of the kernel in the artefact store."),
        testbed_option,
    ):
        run = option(run)
    return run


def prune(store: ArtefactStore, lab: Lab, *needed: str) -> None:
    """Removes kernels beyond the limit of the lab file, except those needed."""
    if refused := store.prune(lab.kernel_bytes, needed).refused:
        say(refused)


def with_lab(command: Callable[..., int]) -> Callable[..., int]:
    """Loads the lab file after the options are parsed."""

    @functools.wraps(command)
    def run(**options: Any) -> int:  # noqa: ANN401 - those of any command
        return command(load_lab(click.get_current_context().find_root().obj), **options)

    return run


def example(text: str) -> str:
    """The example at the end of a command's help."""
    return f"Example: {PROGRAM} --lab lab.toml {text}"


def folder_of_logs(logs: Path | None) -> Path:
    """The given folder, or a new one named by the time."""
    return logs or Path("netbisect-logs") / time.strftime("%Y%m%d-%H%M%S")


def load_scenarios(lab: Lab, names: Sequence[str]) -> list[Scenario]:
    """Scenarios by name, by the name of one of their series, or by their folder.

    Raises:
        FileError: unknown or invalid scenario.
    """
    return [
        load_scenario_folder(Path(name), lab.scenario_directories)
        if "/" in name
        else load_scenario(name, lab.scenario_directories)
        for name in dict.fromkeys(map(scenario_of, names))
    ]
