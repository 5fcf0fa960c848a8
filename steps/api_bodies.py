"""What is sent to the API: read with care, for anybody may send anything."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from netbisect.reports import api, openapi
from netbisect.reports.openapi import MOST_LETTERS, MOST_NAMES, MOST_PATCH_BYTES, MOST_WORDS
from netbisect.steps.rights import Person, Right
from netbisect.steps.wish import PatchFile, Wish, WishError
from netbisect.workers import tomlfile

T = TypeVar("T")
_BODY = "body"


class BodyError(Exception):
    """What was sent is no JSON, or is too large; the text says what would be right."""

    def __init__(self, sentence: str, *, large: bool = False) -> None:
        super().__init__(sentence)
        self.large = large


def read(content: bytes, kind: type[T]) -> T:
    """What was sent, as that kind.

    Raises:
        BodyError: it is no JSON, or too large.
        WishError: it is JSON of another form: a sentence for each field.
    """
    if len(content) > openapi.MOST_BODY_BYTES:
        raise BodyError(f"at most {openapi.MOST_BODY_BYTES:,} bytes expected", large=True)
    data = _json(content)
    if not isinstance(data, dict):
        raise BodyError("a JSON object expected")
    _check_letters(data)
    try:
        return tomlfile.structure(data, kind, source=_BODY)
    except tomlfile.FileError as error:
        raise WishError(_faults(str(error))) from error


def _json(content: bytes) -> object:
    try:
        found: object = json.loads(
            content.decode("utf-8"), parse_constant=_number, parse_float=_number
        )
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise BodyError("JSON in UTF-8, without halves of surrogate pairs, expected") from error
    except RecursionError as error:
        raise BodyError("JSON of a few levels expected") from error
    except ValueError as error:
        raise BodyError(f"JSON expected: {error}") from error
    return found


def _number(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:MOST_LETTERS]} is no number of JSON, or too large")
    return found


def _check_letters(data: Mapping[str, Any]) -> None:
    """Long texts and lists are refused before anybody looks for something like them."""
    faults: dict[str, str] = {}
    for key, value in data.items():
        most = MOST_WORDS if key == "why" else MOST_LETTERS
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and len(text) > most:
                faults[key] = f"at most {most} letters expected, found {len(text)}"
            elif isinstance(text, str) and not text.isprintable():
                faults[key] = "letters without control characters expected"
        if isinstance(value, list) and len(value) > MOST_NAMES:
            faults[key] = f"at most {MOST_NAMES} expected, found {len(value)}"
    if faults:
        raise WishError({name[:MOST_LETTERS]: said for name, said in faults.items()})


def _faults(lines: str) -> dict[str, str]:
    """By field, from the lines of tomlfile."""
    found: dict[str, str] = {}
    for line in lines.splitlines():
        place, _, said = line.removeprefix(f"{_BODY}: ").partition(": ")
        if not said:
            place, said = _BODY, place
        found.setdefault(place[:MOST_LETTERS], said[:MOST_WORDS])
    return found


def wish_of(body: api.AskBody, person: Person) -> Wish:
    """What somebody asks for.

    Raises:
        WishError: a patch cannot be read.
        BodyError: it is too large.
    """
    taken = {one.name for one in fields(Wish)} - {"patches"}
    plain = {one.name: getattr(body, one.name) for one in fields(body) if one.name in taken}
    return Wish(
        **plain,
        patches=tuple(map(_patch_of, body.patches)),
        who=person.who,
        via=person.via,
        may_patch=person.may(Right.PATCH),
    )


def _patch_of(body: api.PatchBody) -> PatchFile:
    if bool(body.diff) == bool(body.base64):
        raise WishError({"patches": "either diff or base64 expected with each"})
    try:
        data = body.diff.encode() or base64.b64decode(body.base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WishError({"patches": f"base64 expected: {error}"}) from error
    if len(data) > MOST_PATCH_BYTES:
        raise BodyError(f"a patch of at most {MOST_PATCH_BYTES:,} bytes expected", large=True)
    if len(body.base) > MOST_LETTERS:
        raise WishError({"patches": f"a base of at most {MOST_LETTERS} letters expected"})
    return PatchFile(data, body.base)
