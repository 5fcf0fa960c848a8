"""The API conforms to its OpenAPI description for arbitrary and hostile input."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jsonschema
import pytest
from api_master import API, DIFF, ApiMaster
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from programs import netbisect
from real_master import case
from twisted.internet import threads

from netbisect.reports.documents import api, openapi
from netbisect.steps.policy.request_spec import InvalidRequestError
from netbisect.steps.requests import api_bodies

DESCRIPTION = openapi.description()
SCHEMAS = DESCRIPTION["components"]["schemas"]
CALLS = [
    (path, method)
    for path, methods in DESCRIPTION["paths"].items()
    for method in ("get", "post")
    if method in methods
]
HOSTILE = [
    "; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "--upload-pack=touch pwned",
    "' OR 1=1; DROP TABLE requests; --",
    "<script>alert(1)</script>",
    "../../../../etc/passwd",
    "main:../x",
    "@{upstream}",
    "a\x00b",
    "\u202e\ufeff",
    "A" * 3000,
    "..",
    "-1",
    "\N{SUPERSCRIPT TWO}",
    "",
]
OUTSIDE = "--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n"
LIKELY = ["main", "main~1", "main~2..main", "main..main~2", "D5180", "c2558", "inet4-forwarding"]
GOOD = {"kind": "compare", "subjects": ["main~1", "main"], "boots": 2}
texts = st.one_of(st.sampled_from(LIKELY), st.sampled_from(HOSTILE), st.text(max_size=20))
junk = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema, with arbitrary texts."""
    if "$ref" in schema:
        return values(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "enum" in schema or "anyOf" in schema:
        choices = map(st.just, schema.get("enum", ()))
        return st.one_of([*choices, *map(values, schema.get("anyOf", ()))])
    match schema["type"]:
        case "string":
            return st.one_of(texts, st.sampled_from([DIFF, OUTSIDE, "LS0tIGEveC5jCg=="]))
        case "array":
            return st.lists(values(schema["items"]), max_size=3)
        case "object":
            fields = {name: values(field) for name, field in schema["properties"].items()}
            required = {name: fields[name] for name in schema["required"]}
            optional = {name: fields[name] for name in fields if name not in required}
            return st.fixed_dictionaries(required, optional=optional)
        case kind:
            return {
                "boolean": st.booleans(),
                "null": st.none(),
                "integer": st.integers(-2, 200) | st.integers(),
                "number": st.floats(0, 60) | st.floats(allow_nan=False),
            }[kind]


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, str, str, bytes | None, str]:
    """Method, described path, actual path, body and user."""
    path, method = draw(st.sampled_from([*CALLS, *[("/requests", "post")] * len(CALLS)]))
    operation = DESCRIPTION["paths"][path][method]
    number = draw(st.sampled_from(["1", "2", "99"]) | texts)
    place = path.replace("{number}", quote(number, safe=""))
    query = {}
    for parameter in operation.get("parameters", ()):
        if parameter.get("required") or draw(st.booleans()):
            value = draw(st.one_of(values({"type": "string", **parameter["schema"]}), texts))
            query[parameter["name"]] = str(value).encode("utf-8", "replace")
    content = None
    if method == "post":
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = draw(values(schema))
        if path == "/requests" and draw(st.booleans()):
            # A valid body with at most one generated field is often accepted.
            fields = draw(st.lists(st.sampled_from([*body]), max_size=1))
            body = GOOD | {name: body[name] for name in fields if name != "kind"}
        if draw(st.sampled_from([False, False, True])):
            body[draw(st.sampled_from([*body, "x"]) if body else texts)] = draw(junk)
        content = draw(st.sampled_from([json.dumps(body).encode()] * 8 + [b"{", b"\xff", b"7"]))
    who = draw(st.sampled_from(["", "netbisect-1-x", "ask", "patch", "admin", "admin"]))
    return method, path, f"{place}?{urlencode(query)}", content, who


def send(request: urllib.request.Request) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read()


def checked(base: str, tokens: dict[str, str], examples: int) -> Callable[[], None]:
    """A property: each response has a status and a schema of the description."""

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(calls())
    @example(("post", "/requests", "/requests", json.dumps(GOOD).encode(), "ask"))
    def holds(call: tuple[str, str, str, bytes | None, str]) -> None:
        method, path, address, content, who = call
        headers = {"content-type": "application/json"}
        if who:
            headers["authorization"] = f"Bearer {tokens.get(who, who)}"
        request = urllib.request.Request(
            f"{base}{address}", content, headers, method=method.upper()
        )
        status, kind, text = send(request)
        answers = DESCRIPTION["paths"][path][method]["responses"]
        assert str(status) in answers, (call, status, text[:500])
        assert kind == "application/json; charset=utf-8"
        schema = answers[str(status)]["content"]["application/json"]["schema"]
        jsonschema.validate(json.loads(text), schema | {"components": DESCRIPTION["components"]})

    return holds


# The master in this process also uses `random`.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.long
class DescriptionTest(ApiMaster):
    @case
    async def test_every_response_matches_the_description(self) -> None:
        self.change(calls_per_minute=1_000_000)
        await self.serve()
        tokens = {
            "ask": self.token("ask"),
            "patch": self.token("ask", "patch", who="bob"),
            "admin": self.token("admin", who="root"),
        }
        base = f"http://127.0.0.1:{self.master.www.getPortnum()}/{API}"
        await self.record(201, tokens["ask"], boots=2)
        await threads.deferToThread(checked(base, tokens, 80))

        assert len(self.ledger.requests.all()) > 1, "some calls are accepted"
        assert {record.who for record in self.ledger.requests.all()} <= {"ann", "bob", "root"}
        assert not list(self.folder.rglob("pwned"))
        assert not (Path.cwd() / "pwned").exists()


def test_the_printed_description_has_valid_schemas() -> None:
    printed = netbisect("schema", "openapi")

    assert json.loads(printed.stdout) == DESCRIPTION
    assert DESCRIPTION["openapi"].startswith("3.1")
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("sent", "faults"),
    [
        ({"why": "x", "foo": 1}, {"body": "unknown key 'foo'; known here: why"}),
        ({"wy": "x"}, {"body": "unknown key 'wy'; did you mean 'why'?"}),
        (
            {"foo": 1, "ba: r": 2, "a @ b": 3},
            {"body": "unknown key 'a @ b', 'ba: r', 'foo'; known here: why"},
        ),
        ({"why": 1}, {"why": "expected a string, found a whole number (1)"}),
    ],
)
def test_errors_have_the_name_of_their_field(sent: dict[str, Any], faults: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        api_bodies.parse_body(json.dumps(sent).encode(), api.CancelBody)
    assert caught.value.faults == faults


def test_an_unknown_choice_is_reported_without_names_of_python() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        api_bodies.parse_body(b'{"priority": "urgent"}', api.PriorityBody)
    fault = "urgent is not one of ['low', 'normal', 'high']"
    assert caught.value.faults == {"priority": fault}
