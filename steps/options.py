"""Options that several commands have."""

from __future__ import annotations

import click

database_option = click.option(
    "--database",
    metavar="ADDRESS",
    default="sqlite:///netbisect.sqlite",
    show_default=True,
    help="SQLAlchemy address of the database.",
)
