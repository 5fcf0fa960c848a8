"""Files that are written for people, with what differs between them filled in."""

from __future__ import annotations

from importlib.resources import files
from string import Template


def filled(name: str, **words: object) -> str:
    """The file `name` of steps/files, with `$word` replaced by what `words` has for it.

    Raises:
        KeyError: the file has a word that is not given.
    """
    text = files("netbisect.steps").joinpath("files", name).read_text()
    return Template(text).substitute({key: str(value) for key, value in words.items()})
