"""OpenAPI 3.1 description of the API, generated from the classes of its requests and responses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, get_args

from netbisect.reports.documents import api, json_schema
from netbisect.reports.model import types

PREFIX = "plugins/netbisect/api/v1"
"""Under the address of the web pages."""
VERSION = "1"
MOST_BODY_BYTES = 4 << 20
MOST_PATCH_BYTES = 1 << 20
MOST_NAMES = 20
MOST_LETTERS = 200
"""Maximum length of a name."""
MOST_WORDS = 1000
"""Characters of a text."""
MOST_LISTED = 1000

_SHARED = {
    "400": "Invalid request.",
    "429": "Too many calls; see `Retry-After`.",
    "503": "Database or tree unavailable.",
}
_READS = {"401": "Reading needs a login or a token.", "403": "Missing right.", **_SHARED}
_WRITES = {
    "401": "Missing or invalid token.",
    "403": "Missing right, or cross-origin request.",
    "413": "Too large.",
    "415": "Not application/json.",
    "422": "Invalid fields, with a message for each.",
    **_SHARED,
}


@dataclass(frozen=True, slots=True)
class _Call:
    """One operation of the API: a post if it has a body, otherwise a get."""

    path: str
    summary: str
    right: str
    answers: Mapping[str, type]
    body: type | None = None
    parameters: Sequence[Mapping[str, Any]] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Besides those of all calls."""


def _parameter(name: str, description: str, **kind: object) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": kind}


_LIMIT = _parameter(
    "limit", "Maximum number of entries.", type="integer", minimum=1, maximum=MOST_LISTED
)
_NUMBER = {
    "name": "number",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
}
_NAME = {
    "name": "name",
    "in": "query",
    "required": True,
    "description": "Name such as r311849, n302145, main, 2026-11-01, D5180 or A..B.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MOST_LETTERS},
}
_LETTERS: dict[str, object] = {"type": "string", "maxLength": MOST_LETTERS}
_ONE = {"200": types.RequestDocument}
_UNKNOWN = {"404": "Unknown request."}
_CALLS = (
    _Call("/caller", "The caller and its rights.", "", {"200": api.Caller}),
    _Call(
        "/requests",
        "Requests, newest first.",
        "read",
        {"200": api.RequestList},
        parameters=(
            _parameter("who", "Only requests of this user.", **_LETTERS),
            _parameter("state", "Only requests in this state.", enum=get_args(api.RequestState)),
            _LIMIT,
        ),
    ),
    _Call(
        "/requests",
        "Submit a request or, with dry_run, estimate its cost. Patches need the right `patch`, "
        "the priority high the right `priority`.",
        "ask",
        {"200": api.CostEstimate, "201": types.RequestDocument},
        api.AskBody,
    ),
    _Call(
        "/requests/{number}",
        "State, place in the queue and time left of a request, or its result.",
        "read",
        _ONE,
        refusals=_UNKNOWN,
    ),
    _Call(
        "/requests/{number}/log",
        "All changes of a request.",
        "read",
        {"200": api.RequestLog},
        refusals=_UNKNOWN,
    ),
    *(
        _Call(
            f"/requests/{{number}}/{verb}",
            f"{summary} Requests of other users need the right `admin`.",
            "ask",
            _ONE,
            body,
            refusals={**_UNKNOWN, "409": "Not possible in the state of the request."},
        )
        for verb, summary, body in (
            (
                "cancel",
                "Cancel a request; the testbed returns to its known-good kernel.",
                api.CancelBody,
            ),
            ("resume", "Resume a cancelled request.", api.ResumeBody),
            ("extend", "Add boots per revision, or hours.", api.ExtendBody),
            ("priority", "Change the priority; high needs the right `priority`.", api.PriorityBody),
        )
    ),
    _Call(
        "/revisions",
        "Meaning of a revision name.",
        "read",
        {"200": api.RevisionMatches},
        parameters=(_NAME,),
        refusals={"422": "Unknown or ambiguous name; the candidates are listed."},
    ),
    _Call(
        "/audit",
        "Accepted and refused actions of users, oldest first.",
        "admin",
        {"200": api.Audit},
        parameters=(
            _parameter("after", "Only later entries.", type="integer", minimum=0),
            _LIMIT,
        ),
    ),
)


def as_text() -> str:
    """The description as JSON."""
    return json.dumps(description(), indent=2)


def description() -> dict[str, Any]:
    """The description of all calls."""
    found: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for call in _CALLS:
        place = paths.setdefault(call.path, {})
        if "{number}" in call.path:
            place["parameters"] = [_NUMBER]
        method = "post" if call.body else "get"
        place[method] = _operation(call, method, found)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "netbisect",
            "version": VERSION,
            "description": "Submit and follow comparisons, searches and series.",
            "license": {"name": "BSD-2-Clause", "identifier": "BSD-2-Clause"},
        },
        "servers": [{"url": f"/{PREFIX}"}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(found.items())),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Token of `netbisect token create`.",
                }
            },
        },
    }
    placed: dict[str, Any] = json.loads(
        json.dumps(document).replace("#/$defs/", "#/components/schemas/")
    )
    return placed


def _operation(call: _Call, method: str, found: dict[str, Any]) -> dict[str, Any]:
    answers = {
        code: _answer(text.__doc__ or "", text, found) for code, text in call.answers.items()
    }
    texts = {**(_WRITES if call.body else _READS), **call.refusals}
    refusals = {code: _answer(text, api.Refusal, found) for code, text in texts.items()}
    name = call.path.replace("/{number}", "").strip("/").replace("/", "-")
    one = "-one" if call.path.endswith("{number}") else ""
    operation: dict[str, Any] = {
        "operationId": f"{method}-{name}{one}",
        "summary": call.summary,
        "responses": dict(sorted({**answers, **refusals}.items())),
    }
    if call.parameters:
        operation["parameters"] = list(call.parameters)
    if call.right in ("", "read"):
        operation["security"] = [{}, {"token": []}]
    else:
        operation["security"] = [{"token": []}]
        operation["description"] = f"Needs the right `{call.right}`."
    if call.body is not None:
        content = {"application/json": {"schema": _body(call.body, found)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _answer(description: str, schema: type, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": " ".join(description.partition("\n\n")[0].split()),
        "content": {"application/json": {"schema": json_schema.reference(schema, found)}},
    }


def _body(schema: type, found: dict[str, Any]) -> dict[str, Any]:
    """Request body: fields with a default are optional, unknown fields are refused."""
    inner: dict[str, Any] = {}
    definitions = {schema.__name__: json_schema.described(schema, inner), **inner}
    known = {one.__name__: one for one in (schema, api.PatchBody)}
    for name, one in definitions.items():
        one["additionalProperties"] = False
        one["required"] = [field.name for field in fields(known[name]) if field.default is MISSING]
        for key, limits in _LIMITS.items():
            if key in one["properties"]:
                one["properties"][key].update(limits)
    found.update(definitions)
    return {"$ref": f"#/$defs/{schema.__name__}"}


_LIST = {"maxItems": MOST_NAMES, "items": _LETTERS}
_LIMITS: Mapping[str, Mapping[str, object]] = {
    "subjects": _LIST,
    "testbeds": _LIST,
    "scenarios": _LIST,
    "patches": {"maxItems": MOST_NAMES},
    "branch": {"maxLength": MOST_LETTERS},
    "address": {"maxLength": MOST_LETTERS},
    "base": {"maxLength": MOST_LETTERS},
    "why": {"maxLength": MOST_WORDS},
}
