"""`python -m netbisect.demo`: runs and stops the demonstration."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from netbisect.demo.lab.testbeds import TESTBEDS
from netbisect.demo.play import play
from netbisect.demo.service import DemoError, DemoService
from netbisect.demo.watch import ProgressWatch, StuckError
from netbisect.steps.service.control import SETTINGS, ServiceError
from netbisect.steps.service.settings import load_settings

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 130
"""Exit status."""

_SCENARIOS_OF_LAB = ("inet4-forwarding", "inet4-pf-stateful")
"""Two of the four of the testbed, which shortens the tutorial."""

place_option = click.option(
    "--place",
    type=click.Path(path_type=Path),
    default=Path(".demo"),
    show_default=True,
    help="Folder of the demonstration.",
)
seed_option = click.option("--seed", default=1, show_default=True, help="Random seed of the lab.")
culprit_option = click.option(
    "--no-culprit", is_flag=True, help="Use a history without a regression."
)


@click.group()
def main() -> None:
    """A service with a simulated lab on this machine."""


def _interrupted(number: int, _frame: FrameType | None) -> NoReturn:
    _ignore_interrupts()  # the clean-up must not be interrupted
    raise KeyboardInterrupt(signal.Signals(number).name)


def _ignore_interrupts() -> None:
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)


def _stop(service: DemoService, watch: ProgressWatch) -> None:
    _ignore_interrupts()
    watch.end()
    service.stop()


@contextmanager
def _stopped_on_error(service: DemoService, watch: ProgressWatch) -> Iterator[None]:
    """Stops all processes on an error or an interruption."""
    os.environ.update(service.environment)  # marks all child processes
    try:
        for number in _INTERRUPTS:
            signal.signal(number, _interrupted)
        yield
    except BaseException as error:
        _stop(service, watch)
        if isinstance(error, KeyboardInterrupt):
            watch.say(f"interrupted by {error}; everything is stopped")
            sys.exit(_INTERRUPTED)
        raise


def _run_story(service: DemoService, watch: ProgressWatch, seed: int, no_culprit: bool) -> bool:
    try:
        watch.waits_for("the end of an earlier demonstration")
        service.remove_old()
        return play(service, culprit=not no_culprit, seed=seed, watch=watch)
    except (DemoError, ServiceError, StuckError) as error:
        watch.say(f"the demonstration failed: {error}")
        return False


def _perform(place: Path, seed: int, no_culprit: bool, *, keep: bool = False) -> bool:
    """Runs the story; with `keep`, a successful demonstration keeps running."""
    service, watch = DemoService(place), ProgressWatch()
    try:
        service.claim()
    except DemoError as error:
        raise click.ClickException(str(error)) from error
    with _stopped_on_error(service, watch):
        watch.begin()
        right = _run_story(service, watch, seed, no_culprit)
        watch.end()
        if right and keep:
            url = load_settings(service.place / SETTINGS).web.url
            watch.say(f"log in at {url} as `demo` with the password {service.password};")
            watch.say(f"the form for requests is {url}plugins/netbisect/new-request.html")
        else:
            _stop(service, watch)
    return right


@main.command("play", epilog="Example: python -m netbisect.demo play --seed 7")
@place_option
@seed_option
@culprit_option
def play_command(place: Path, seed: int, no_culprit: bool) -> None:
    """Run the demonstration and stop; exit status 0 if it finds the right commit."""
    right = _perform(place, seed, no_culprit)
    click.echo("everything is stopped; `make up` runs it again and keeps it running")
    netbisect = str(Path(sys.executable).with_name("netbisect"))
    command = shlex.join([netbisect, "site", "pages", "--folder", str(place)])
    click.echo(f"to write its web pages: {command}")
    sys.exit(0 if right else 1)


@main.command(epilog="Example: python -m netbisect.demo up")
@place_option
@seed_option
@culprit_option
def up(place: Path, seed: int, no_culprit: bool) -> None:
    """Run the demonstration and keep it running."""
    right = _perform(place, seed, no_culprit, keep=True)
    if right:
        click.echo("everything is running; `make down` stops it")
    sys.exit(0 if right else 1)


@main.command("lab", epilog="Example: python -m netbisect.demo lab --place machines")
@place_option
@seed_option
def lab_command(place: Path, seed: int) -> None:
    """Start only the source repository and the machines of one testbed.

    They run in the background; `down` stops them.
    """
    service = DemoService(place)
    if service.place.exists():
        raise click.ClickException(f"{service.place} exists; expected a new folder")
    try:
        with _stopped_on_error(service, ProgressWatch()):
            testbed = replace(TESTBEDS["c2558"], scenarios=_SCENARIOS_OF_LAB)
            service.build_lab(seed=seed, testbeds=[testbed])
            service.start_lab()
    except DemoError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"The lab is running; see {service.place / 'lab' / 'lab.toml'}.")


@main.command(epilog="Example: python -m netbisect.demo down")
@place_option
def down(place: Path) -> None:
    """Stop everything and remove the folder."""
    service = DemoService(place)
    was_there = service.place.exists()
    try:
        stopped = service.remove_old()
    except DemoError as error:
        raise click.ClickException(str(error)) from error
    number = f"{stopped} process{'' if stopped == 1 else 'es'}" if stopped else "no process"
    removed = f"removed {service.place}" if was_there else f"there was no {service.place}"
    click.echo(f"stopped {number} of the demonstration; {removed}")


if __name__ == "__main__":
    main()
