"""Templates of configuration files."""

from __future__ import annotations

from importlib.resources import files
from string import Template


def fill_template(name: str, **words: object) -> str:
    """Fills in `$word` in a template of steps/files. Raises KeyError for a missing word."""
    text = files("netbisect.steps").joinpath("files", name).read_text()
    return Template(text).substitute({key: str(value) for key, value in words.items()})
