"""JSON for facts, jobs, trials and results.

`netbisect-lab` prints these objects and the service reads them; the database keeps jobs and
results in the same form. The key `is` holds the tag of the class.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import cattrs
from cattrs.preconf.json import make_converter

from netbisect.bisect.model import entities, jobs, marks, results

T = TypeVar("T")

CLASSES: dict[str, type] = {
    "kernel": entities.Kernel,
    "boot": entities.Boot,
    "conditions": entities.Conditions,
    "sample": entities.Sample,
    "dud": entities.Failure,
    "profile": entities.Profile,
    "mark": marks.CommitMark,
    "night": jobs.NightlyJob,
    "comparison": jobs.CompareJob,
    "bisection": jobs.BisectJob,
    "profiling": jobs.ProfileJob,
    "measurement": jobs.MeasureJob,
    "visit": results.Trial,
    "nightdone": results.NightlyResult,
    "confirmed": results.Confirmed,
    "notconfirmed": results.NotConfirmed,
    "culprit": results.Culprit,
    "several": results.SeveralCulprits,
    "suspects": results.Suspects,
    "drift": results.Drift,
    "notreproduced": results.NotReproduced,
    "profiled": results.ProfileResult,
    "measured": results.MeasureResult,
    "unfinished": results.Unfinished,
}
"""By tag. Tags are stored in databases and logs: they stay when a class is renamed."""
_FORMERLY = {"comparison": {"commits": 30}}
"""By tag: fields that stored objects of earlier versions lack."""
_RENAMED = {"belief": "posterior"}
"""Fields of stored objects of earlier versions, and their present names."""
_DROPPED = ("least_pairs",)
"""Fields of stored objects of earlier versions that are not read."""
_TAGS = {kind: tag for tag, kind in CLASSES.items()}

_converter = make_converter(forbid_extra_keys=True, detailed_validation=True)


class WireError(ValueError):
    """The text is not the JSON of a known class."""


def tag_of(noun: object) -> str:
    """The stored tag of an object's class, such as "bisection"."""
    return _TAGS[type(noun)]


def dumps(noun: object) -> str:
    """One line of JSON for an object of one of `CLASSES`."""
    data = {"is": tag_of(noun), **_converter.unstructure(noun)}
    return json.dumps(data, separators=(",", ":"))


def loads(text: str) -> Any:  # noqa: ANN401 - one of many classes; `loads_as` for one
    """The object that `dumps` wrote.

    Raises:
        WireError: the text is not JSON, its tag is unknown, or a field is missing, unknown or of
            the wrong type; the message names the field.
    """
    try:
        data = json.loads(text, object_hook=_present)
    except (ValueError, RecursionError) as error:  # also endless numbers and brackets
        raise WireError(f"not a line of JSON: {error}") from error
    if not isinstance(data, dict) or str(data.get("is")) not in CLASSES:
        raise WireError(f"expected a JSON object whose `is` is one of {', '.join(sorted(CLASSES))}")
    tag = data.pop("is")
    kind, data = CLASSES[tag], _FORMERLY.get(tag, {}) | data
    try:
        return _converter.structure(data, kind)
    except (cattrs.BaseValidationError, ValueError, TypeError) as error:
        raise WireError("; ".join(cattrs.transform_error(error, path=kind.__name__))) from error


def _present(data: dict[str, Any]) -> dict[str, Any]:
    """A stored object, or one within it, with the present names of its fields."""
    return {_RENAMED.get(name, name): data[name] for name in data if name not in _DROPPED}


def loads_as(text: str, kind: type[T]) -> T:
    """As `loads`, for an object of a known class.

    Raises:
        WireError: also if the object is of another class.
    """
    loaded = loads(text)
    if not isinstance(loaded, kind):
        raise WireError(f"expected {kind.__name__}, found {type(loaded).__name__}")
    return loaded
