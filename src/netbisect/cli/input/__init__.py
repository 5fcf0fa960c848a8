"""Input of commands that read files or a database."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MAX_SUGGESTIONS = 6


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the most similar known names."""
    names = [one for one in dict.fromkeys(known) if one]
    similar = difflib.get_close_matches(name, names, n=MAX_SUGGESTIONS) or names[:MAX_SUGGESTIONS]
    return f"; found {', '.join(similar)}" if similar else " at all"


def without_number(name: str, known: Iterable[str]) -> str:
    """The revision in a label such as n302145-0a1b2c3d4e5f; known names and prefixes unchanged."""
    if any(one.startswith(name) for one in known):
        return name
    return re.sub(r"^n\d+-", "", name)
