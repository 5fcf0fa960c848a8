"""The name of the user who runs a command."""

from __future__ import annotations

import getpass
import os


def login_name() -> str:
    """The login name, or the user ID of a user without one, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
