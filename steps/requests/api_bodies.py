"""Parses and checks the bodies of API calls, which are untrusted."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from netbisect.reports.documents import api, openapi
from netbisect.reports.documents.openapi import (
    MOST_LETTERS,
    MOST_NAMES,
    MOST_PATCH_BYTES,
    MOST_WORDS,
)
from netbisect.steps.policy.request_spec import InvalidRequestError, PatchFile, RequestSpec
from netbisect.steps.service.rights import Right, User
from netbisect.workers.config import toml

T = TypeVar("T")
_BODY = "body"


class BodyError(Exception):
    """The body is not JSON, or too large."""

    def __init__(self, sentence: str, *, large: bool = False) -> None:
        super().__init__(sentence)
        self.large = large


def parse_body(content: bytes, kind: type[T]) -> T:
    """Parses a body.

    Raises:
        BodyError: It is not JSON, or too large.
        InvalidRequestError: Fields are missing, unknown or invalid.
    """
    if len(content) > openapi.MOST_BODY_BYTES:
        raise BodyError(f"expected at most {openapi.MOST_BODY_BYTES:,} bytes", large=True)
    data = _json(content)
    if not isinstance(data, dict):
        raise BodyError("expected a JSON object")
    _check_lengths(data)
    try:
        return toml.structure(data, kind, source=_BODY)
    except toml.FileError as error:
        faults = error.faults.items()
        found = {place[:MOST_LETTERS] or _BODY: message[:MOST_WORDS] for place, message in faults}
        raise InvalidRequestError(found) from error


def _json(content: bytes) -> object:
    try:
        found: object = json.loads(
            content.decode("utf-8"), parse_constant=_number, parse_float=_number
        )
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise BodyError("expected JSON in UTF-8, without unpaired surrogates") from error
    except RecursionError as error:
        raise BodyError("expected JSON of a few levels") from error
    except ValueError as error:
        raise BodyError(f"expected JSON: {error}") from error
    return found


def _number(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:MOST_LETTERS]} is not a JSON number, or too large")
    return found


def _check_lengths(data: Mapping[str, Any]) -> None:
    """Rejects long texts and lists before they are searched for suggestions."""
    faults: dict[str, str] = {}
    for key, value in data.items():
        most = MOST_WORDS if key == "why" else MOST_LETTERS
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and len(text) > most:
                faults[key] = f"expected at most {most} characters, found {len(text)}"
            elif isinstance(text, str) and not text.isprintable():
                faults[key] = "expected no control characters"
        if isinstance(value, list) and len(value) > MOST_NAMES:
            faults[key] = f"expected at most {MOST_NAMES} items, found {len(value)}"
    if faults:
        raise InvalidRequestError(
            {name[:MOST_LETTERS]: message for name, message in faults.items()}
        )


def spec_from_body(body: api.AskBody, user: User) -> RequestSpec:
    """Converts a body to a specification.

    Raises:
        InvalidRequestError: A patch cannot be decoded.
        BodyError: A patch is too large.
    """
    taken = {one.name for one in fields(RequestSpec)} - {"patches"}
    plain = {one.name: getattr(body, one.name) for one in fields(body) if one.name in taken}
    return RequestSpec(
        **plain,
        patches=tuple(map(_patch_of, body.patches)),
        who=user.name,
        via=user.via,
        may_patch=user.has_right(Right.PATCH),
    )


def _patch_of(body: api.PatchBody) -> PatchFile:
    if bool(body.diff) == bool(body.base64):
        raise InvalidRequestError({"patches": "expected either diff or base64 in each"})
    try:
        data = body.diff.encode() or base64.b64decode(body.base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequestError({"patches": f"expected base64: {error}"}) from error
    if len(data) > MOST_PATCH_BYTES:
        raise BodyError(f"expected a patch of at most {MOST_PATCH_BYTES:,} bytes", large=True)
    if len(body.base) > MOST_LETTERS:
        raise InvalidRequestError(
            {"patches": f"expected a base of at most {MOST_LETTERS} characters"}
        )
    return PatchFile(data, body.base)
