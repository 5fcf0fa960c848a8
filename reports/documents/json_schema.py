"""JSON: documents as text, and their schemas, made from the classes themselves."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from netbisect.reports.model import types as documents
from netbisect.reports.model.changes import BisectionDocument, ComparisonDocument
from netbisect.reports.model.series import SeriesDocument

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}

Document: TypeAlias = (
    documents.AlertDocument
    | BisectionDocument
    | ComparisonDocument
    | documents.DigestDocument
    | documents.HealthDocument
    | documents.RequestDocument
    | SeriesDocument
    | documents.StatusDocument
)


def schema_name(kind: type) -> str:
    """Name of a class in published schemas."""
    return kind.__name__.removesuffix("Document")


DOCUMENTS: Mapping[str, type] = {schema_name(one).lower(): one for one in get_args(Document)}
"""Documents by the name of their schema."""


def as_text(document: Document) -> str:
    """A document as ASCII JSON."""
    return json.dumps(as_plain(document), indent=2, allow_nan=False)


def as_line(document: Document) -> str:
    """As `as_text`, on one line: shorter for long documents."""
    return json.dumps(as_plain(document), allow_nan=False, separators=(",", ":"))


def as_plain(value: Any) -> Any:  # noqa: ANN401 - of dataclasses there is no common type
    """A document, or a part of one, as JSON values.

    JSON has no infinity, and readers refuse texts that UTF-8 cannot hold: null and the replacement
    character stand for them.
    """
    match value:
        case float():
            return value if math.isfinite(value) else None
        case str():
            return str(value) if value.isascii() else value.encode("utf-8", "replace").decode()
        case Mapping():
            return {as_plain(key): as_plain(one) for key, one in value.items()}
        case list() | tuple():
            return [as_plain(one) for one in value]
        case _ if is_dataclass(value):
            return {one.name: as_plain(getattr(value, one.name)) for one in fields(value)}
        case _:
            return value


def schema(name: str) -> dict[str, Any]:
    """The schema of a document, of JSON Schema's draft 2020-12. `name` is one of DOCUMENTS."""
    found: dict[str, Any] = {}
    document = DOCUMENTS[name]
    body = described(document, found)
    kind = body["properties"]["format"]["const"]
    return {
        "$schema": _DRAFT,
        "$id": f"urn:{kind.replace('-', ':', 1).replace('/', ':')}",
        "title": kind,
        **body,
        **({"$defs": dict(sorted(found.items()))} if found else {}),
    }


def described(kind: type, found: dict[str, Any]) -> dict[str, Any]:
    """The schema of a dataclass; adds those of nested classes to `found`, by name."""
    hints = get_type_hints(kind, include_extras=True)
    names = [one.name for one in fields(kind)]
    summary = (kind.__doc__ or "").partition("\n\n")[0]
    return {
        "description": " ".join(summary.split()),
        "type": "object",
        "properties": {name: _type(hints[name], found) for name in names},
        "required": names,
    }


def _type(hint: Any, found: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - types have no type
    origin, parts = get_origin(hint), get_args(hint)
    made: dict[str, Any]
    if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, StrEnum)):
        made = reference(hint, found)
    elif hint in _PLAIN:
        made = {"type": _PLAIN[hint]}
    elif origin is Annotated:
        made = {"description": parts[1], **_type(parts[0], found)}
    elif origin in (Union, types.UnionType):
        made = {"anyOf": [_type(one, found) for one in parts]}
    elif origin is Literal:
        made = {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    elif origin is tuple:
        made = {"type": "array", "items": _type(parts[0], found)}
    elif origin is dict:
        made = {"type": "object", "additionalProperties": _type(parts[1], found)}
    else:
        raise TypeError(f"{hint}: no document may have such a field")
    return made


def reference(kind: type, found: dict[str, Any]) -> dict[str, Any]:
    """A reference to the schema of a nested class, which is added to `found`."""
    name = schema_name(kind)
    if name not in found:
        found[name] = {}  # ends the recursion of a class that contains itself
        found[name] = (
            {"enum": [one.value for one in kind]}
            if issubclass(kind, StrEnum)
            else described(kind, found)
        )
    return {"$ref": f"#/$defs/{name}"}
