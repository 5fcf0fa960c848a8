"""OpenAPI 3.1 description of the API, generated from the classes of its requests and responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from netbisect.reports.documents import api, json_schema
from netbisect.reports.model import types

PREFIX = "plugins/netbisect/api/v1"
"""Under the address of the web pages."""
VERSION = "1"
MOST_BODY_BYTES = 4 << 20
MOST_PATCH_BYTES = 1 << 20
MOST_NAMES = 20
MOST_LETTERS = 200
"""Of a name."""
MOST_WORDS = 1000
"""Characters of a text."""
MOST_LISTED = 1000

_SHARED = {
    "400": "It cannot be read.",
    "429": "Too often; `Retry-After` says when to come again.",
    "503": "The service's database cannot be used now.",
}
_READS = {"401": "Reading needs a login or a token.", "403": "It may not be read.", **_SHARED}
_WRITES = {
    "401": "No token, or none that is good.",
    "403": "Another right is needed, or the page that asks is of another origin.",
    "413": "It is too large.",
    "415": "Something else than application/json.",
    "422": "It cannot be granted; a sentence for every field that is wrong.",
    **_SHARED,
}
_NONE = {"404": "There is no such request."}
_STATE = {"409": "The request is in no state for it."}


@dataclass(frozen=True, slots=True)
class _Call:
    """One operation of the API."""

    method: str
    path: str
    summary: str
    right: str
    answers: Mapping[str, type]
    refusals: Mapping[str, str]
    body: type | None = None
    parameters: tuple[dict[str, Any], ...] = ()


def _parameter(name: str, description: str, **kind: object) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": kind}


_LIMIT = _parameter("limit", "At most so many.", type="integer", minimum=1, maximum=MOST_LISTED)
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
    "description": "Such as r311849, n302145, main, 2026-11-01, D5180 or A..B.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MOST_LETTERS},
}
_LETTERS: dict[str, object] = {"type": "string", "maxLength": MOST_LETTERS}
_CALLS = (
    _Call("get", "/caller", "Who asks, and what that one may do.", "", {"200": api.Caller}, _READS),
    _Call(
        "get",
        "/requests",
        "Requests, newest first.",
        "read",
        {"200": api.RequestList},
        _READS,
        parameters=(
            _parameter("who", "Only theirs.", **_LETTERS),
            _parameter("state", "Only those.", enum=["open", "answered", "cancelled", "failed"]),
            _LIMIT,
        ),
    ),
    _Call(
        "post",
        "/requests",
        "Ask the lab, or, with dry_run, what it would cost. Patches need the right `patch`, the "
        "priority high the right `priority`.",
        "ask",
        {"200": api.CostEstimate, "201": types.RequestDocument},
        _WRITES,
        api.AskBody,
    ),
    _Call(
        "get",
        "/requests/{number}",
        "How far a request is, its place in the queue and the time left, or its answer.",
        "read",
        {"200": types.RequestDocument},
        {**_READS, **_NONE},
    ),
    _Call(
        "get",
        "/requests/{number}/log",
        "All changes of a request.",
        "read",
        {"200": api.RequestLog},
        {**_READS, **_NONE},
    ),
    *(
        _Call(
            "post",
            f"/requests/{{number}}/{verb}",
            f"{summary} What others have asked for needs the right `admin`.",
            "ask",
            {"200": types.RequestDocument},
            {**_WRITES, **_NONE, **_STATE},
            body,
        )
        for verb, summary, body in (
            ("cancel", "Stop it; the testbed is left on its known-good kernel.", api.CancelBody),
            ("resume", "Go on with what was cancelled.", api.ResumeBody),
            ("extend", "Ask for more boots of each revision, or hours.", api.ExtendBody),
            ("priority", "Another priority; high needs the right `priority`.", api.PriorityBody),
        )
    ),
    _Call(
        "get",
        "/revisions",
        "What a name of a revision means.",
        "read",
        {"200": api.RevisionMatches},
        {**_READS, "422": "It means nothing, or several commits, which are listed."},
        parameters=(_NAME,),
    ),
    _Call(
        "get",
        "/audit",
        "What people have done and were refused, oldest first.",
        "admin",
        {"200": api.Audit},
        _READS,
        parameters=(
            _parameter("after", "Only what comes after this one.", type="integer", minimum=0),
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
        place[call.method] = _operation(call, found)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "netbisect",
            "version": VERSION,
            "description": "Ask the lab for comparisons, searches and series, and follow them.",
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
                    "description": "Of `netbisect token create`.",
                }
            },
        },
    }
    placed: dict[str, Any] = json.loads(
        json.dumps(document).replace("#/$defs/", "#/components/schemas/")
    )
    return placed


def _operation(call: _Call, found: dict[str, Any]) -> dict[str, Any]:
    answers = {
        code: _answer(text.__doc__ or "", text, found) for code, text in call.answers.items()
    }
    refusals = {code: _answer(text, api.Refusal, found) for code, text in call.refusals.items()}
    name = call.path.replace("/{number}", "").strip("/").replace("/", "-")
    one = "-one" if call.path.endswith("{number}") else ""
    operation: dict[str, Any] = {
        "operationId": f"{call.method}-{name}{one}",
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
        reference = _body(call.body, found)
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": reference}},
        }
    return operation


def _answer(description: str, noun: type, found: dict[str, Any]) -> dict[str, Any]:
    name = json_schema.schema_name(noun)
    if name not in found:
        found[name] = {}
        found[name] = json_schema.described(noun, found)
    reference = {"$ref": f"#/$defs/{name}"}
    return {
        "description": " ".join(description.partition("\n\n")[0].split()),
        "content": {"application/json": {"schema": reference}},
    }


def _body(noun: type, found: dict[str, Any]) -> dict[str, Any]:
    """Request body: fields with a default are optional, unknown fields are refused."""
    inner: dict[str, Any] = {}
    definitions = {noun.__name__: json_schema.described(noun, inner), **inner}
    known = {one.__name__: one for one in (noun, api.PatchBody)}
    for name, one in definitions.items():
        one["additionalProperties"] = False
        one["required"] = [field.name for field in fields(known[name]) if field.default is MISSING]
        for key, limits in _LIMITS.items():
            if key in one["properties"]:
                one["properties"][key].update(limits)
    found.update(definitions)
    return {"$ref": f"#/$defs/{noun.__name__}"}


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
