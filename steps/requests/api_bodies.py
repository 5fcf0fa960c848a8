"""Parses and checks the bodies of API calls, which are untrusted."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from netbisect.reports.documents import api
from netbisect.reports.documents.openapi import (
    MOST_LETTERS,
    MOST_NAMES,
    MOST_PATCH_BYTES,
    MOST_WORDS,
)
from netbisect.steps.policy.request_spec import InvalidRequestError
from netbisect.workers.config import toml

T = TypeVar("T")
_BODY = "body"


class CallError(Exception):
    """A call that is refused: HTTP status, refusal and further headers of the response."""

    def __init__(
        self, status: int, refusal: api.Refusal | str, headers: Mapping[str, str] | None = None
    ) -> None:
        if isinstance(refusal, str):
            refusal = api.Refusal(error=refusal, faults={})
        super().__init__(refusal.error)
        self.status, self.refusal, self.headers = status, refusal, headers or {}


def parse_body(content: bytes, kind: type[T]) -> T:
    """Parses a body.

    Raises CallError if it is not JSON, and InvalidRequestError for wrong fields.
    """
    data = _json(content)
    if not isinstance(data, dict):
        raise CallError(400, "expected a JSON object")
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
        raise CallError(400, "expected JSON in UTF-8, without unpaired surrogates") from error
    except RecursionError as error:
        raise CallError(400, "expected JSON with fewer levels") from error
    except ValueError as error:
        raise CallError(400, f"expected JSON: {error}") from error
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


def patch_bytes(body: api.PatchBody) -> bytes:
    """Decodes a patch. Raises InvalidRequestError."""
    if body.diff and body.base64:
        raise InvalidRequestError({"patches": "expected either diff or base64, found both"})
    try:
        return body.diff.encode() or base64.b64decode(body.base64, validate=True)
    except ValueError as error:
        raise InvalidRequestError({"patches": f"expected base64: {error}"}) from error


def check_patches(patches: Sequence[api.PatchBody]) -> None:
    """Limits the size of patches. Raises InvalidRequestError and CallError."""
    for one in patches:
        if len(patch_bytes(one)) > MOST_PATCH_BYTES:
            raise CallError(413, f"expected a patch of at most {MOST_PATCH_BYTES:,} bytes")
        if len(one.base) > MOST_LETTERS:
            message = f"expected a base of at most {MOST_LETTERS} characters"
            raise InvalidRequestError({"patches": message})
