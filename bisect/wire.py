"""One noun, one JSON object, both ways.

What `netbisect-lab` prints is what the service reads, and what a question or an answer looks
like in the database. The key `is` names the noun.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar, get_args

import cattrs
from cattrs.preconf.json import make_converter

from netbisect.bisect import model

T = TypeVar("T")

_NOUNS: dict[str, type] = {
    noun.__name__.lower(): noun
    for noun in (
        *get_args(model.Fact),
        *get_args(model.Question),
        *get_args(model.Move),
        model.Profile,
    )
}
_NAMES = {noun: name for name, noun in _NOUNS.items()}

_converter = make_converter(forbid_extra_keys=True, detailed_validation=True)


def prepare() -> None:
    """Makes the code for all nouns, which is otherwise made when one is first met."""
    for _ in range(2):  # to make some of it has the converter forget what it made before
        for noun in _NOUNS.values():
            _converter.get_structure_hook(noun)
            _converter.get_unstructure_hook(noun)


class WireError(ValueError):
    """A line that does not speak of one of our nouns."""


def dumps(noun: object) -> str:
    """One line of JSON for a fact, a profile, a question, a move or a finding."""
    name = _NAMES[type(noun)]
    return json.dumps({"is": name, **_converter.unstructure(noun)}, separators=(",", ":"))


def loads(text: str) -> Any:  # noqa: ANN401 - one of many nouns; `loads_as` for one
    """The noun that `dumps` wrote.

    Raises:
        WireError: the text is not JSON, or not one of our nouns, or a field is missing,
            unknown or of another type; the message says which.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:  # also of numbers and brackets without an end
        raise WireError(f"not a line of JSON: {error}") from error
    if not isinstance(data, dict) or str(data.get("is")) not in _NOUNS:
        raise WireError(f"a JSON object whose `is` is one of {', '.join(sorted(_NOUNS))} expected")
    noun = _NOUNS[data.pop("is")]
    try:
        return _converter.structure(data, noun)
    except (cattrs.BaseValidationError, ValueError, TypeError) as error:
        raise WireError("; ".join(cattrs.transform_error(error, path=noun.__name__))) from error


def loads_as(text: str, noun: type[T]) -> T:
    """As `loads`, when only one noun is right.

    Raises:
        WireError: also when the line speaks of another noun.
    """
    loaded = loads(text)
    if not isinstance(loaded, noun):
        raise WireError(f"expected {noun.__name__}, found {type(loaded).__name__}")
    return loaded
