"""`python -m netbisect.demo`: play it, leave it up, take it down."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from netbisect.demo.house import House, HouseError
from netbisect.demo.play import play, say
from netbisect.steps.control import ServiceError

place_option = click.option(
    "--place",
    type=click.Path(path_type=Path),
    default=Path(".demo"),
    show_default=True,
    help="Folder of the demonstration.",
)
seed_option = click.option("--seed", default=1, show_default=True, help="Of the lab's luck.")
culprit_option = click.option(
    "--no-culprit", is_flag=True, help="A story in which no commit makes the kernel slower."
)


@click.group()
def main() -> None:
    """A whole service with a simulated lab, on this machine."""


def _perform(house: House, seed: int, no_culprit: bool) -> bool:
    house.stop()
    house.remove()
    try:
        return play(house, culprit=not no_culprit, seed=seed)
    except (HouseError, ServiceError) as error:
        say(f"the demonstration failed: {error}")
        return False


@main.command("play", epilog="Example: python -m netbisect.demo play --seed 7")
@place_option
@seed_option
@culprit_option
def play_command(place: Path, seed: int, no_culprit: bool) -> None:
    """Play one story and stop; exit status 0 when the right commit was named."""
    house = House(place)
    try:
        right = _perform(house, seed, no_culprit)
    finally:
        house.stop()
    say("everything is stopped; `make up` plays it again and leaves it running")
    sys.exit(0 if right else 1)


@main.command(epilog="Example: python -m netbisect.demo up")
@place_option
@seed_option
@culprit_option
def up(place: Path, seed: int, no_culprit: bool) -> None:
    """Play one story and leave everything running."""
    house = House(place)
    right = False
    try:
        right = _perform(house, seed, no_culprit)
    finally:
        if not right:
            house.stop()
    if right:
        say("everything runs on; `make down` ends it")
    sys.exit(0 if right else 1)


@main.command("lab", epilog="Example: python -m netbisect.demo lab --place machines")
@place_option
@seed_option
def lab_command(place: Path, seed: int) -> None:
    """Start a tree and the machines of one testbed alone, for a service of your own."""
    house = House(place)
    try:
        house.build_lab(seed=seed, testbeds=["c2558"])
        house.start_lab()
    except HouseError as error:
        house.stop()
        raise click.ClickException(str(error)) from error
    say(f"The machines run; {house.place / 'lab' / 'lab.toml'} describes them.")


@main.command(epilog="Example: python -m netbisect.demo down")
@place_option
def down(place: Path) -> None:
    """End everything and remove its folder."""
    house = House(place)
    house.stop()
    house.remove()
    say("nothing is left")


if __name__ == "__main__":
    main()
