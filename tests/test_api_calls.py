"""What the API says of itself holds, whatever is sent; and what is sent is hostile."""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_master import case
from twisted.internet import threads

from netbisect.reports import openapi

ROOT = Path(__file__).resolve().parent.parent
TOLD = openapi.description()
SCHEMAS = TOLD["components"]["schemas"]
CALLS = [
    (path, one) for path in TOLD["paths"] for one in ("get", "post") if one in TOLD["paths"][path]
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


def of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What a schema allows; of texts more than that."""
    if "$ref" in schema:
        return of(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "enum" in schema or "anyOf" in schema:
        return st.one_of([*map(st.just, schema.get("enum", ())), *map(of, schema.get("anyOf", ()))])
    match schema["type"]:
        case "string":
            return st.one_of(texts, st.sampled_from([DIFF, OUTSIDE, "LS0tIGEveC5jCg=="]))
        case "array":
            return st.lists(of(schema["items"]), max_size=3)
        case "object":
            parts = {name: of(one) for name, one in schema["properties"].items()}
            must = {name: parts[name] for name in schema["required"]}
            may = {name: one for name, one in parts.items() if name not in must}
            return st.fixed_dictionaries(must, optional=may)
        case kind:
            return {
                "boolean": st.booleans(),
                "null": st.none(),
                "integer": st.integers(-2, 200) | st.integers(),
                "number": st.floats(0, 60) | st.floats(allow_nan=False),
            }[kind]


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, str, str, bytes | None, str]:
    """The method and the path as they are described, the address, the body and who calls."""
    path, method = draw(st.sampled_from([*CALLS, *[("/requests", "post")] * len(CALLS)]))
    operation = TOLD["paths"][path][method]
    number = draw(st.sampled_from(["1", "2", "99"]) | texts)
    place = path.replace("{number}", quote(number, safe=""))
    query = {}
    for one in operation.get("parameters", ()):
        if one.get("required") or draw(st.booleans()):
            value = draw(st.one_of(of({"type": "string", **one["schema"]}), texts))
            query[one["name"]] = str(value).encode("utf-8", "replace")
    content = None
    if method == "post":
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = draw(of(schema))
        if path == "/requests" and draw(st.booleans()):
            # A good one with at most two fields of the other: these are granted now and then.
            fields = draw(st.lists(st.sampled_from([*body]), max_size=2))
            body = GOOD | {name: body[name] for name in fields if name != "kind"}
        if draw(st.sampled_from([False, False, True])):
            body[draw(st.sampled_from([*body, "x"]) if body else texts)] = draw(junk)
        content = draw(st.sampled_from([json.dumps(body).encode()] * 8 + [b"{", b"\xff", b"7"]))
    who = draw(st.sampled_from(["", "netbisect-1-x", "ask", "patch", "admin", "admin"]))
    return method, path, f"{place}?{urlencode(query)}", content, who


def send(request: urllib.request.Request) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read()


def checked(base: str, tokens: dict[str, str], examples: int) -> Callable[[], None]:
    """A property: each answer has a status and a form that the description names."""

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(calls())
    def holds(call: tuple[str, str, str, bytes | None, str]) -> None:
        method, path, address, content, who = call
        headers = {"content-type": "application/json"}
        if who:
            headers["authorization"] = f"Bearer {tokens.get(who, who)}"
        request = urllib.request.Request(
            f"{base}{address}", content, headers, method=method.upper()
        )
        status, kind, text = send(request)
        answers = TOLD["paths"][path][method]["responses"]
        assert str(status) in answers, (call, status, text[:500])
        assert kind == "application/json; charset=utf-8"
        schema = answers[str(status)]["content"]["application/json"]["schema"]
        jsonschema.validate(json.loads(text), schema | {"components": TOLD["components"]})

    return holds


# The master in this process draws chances of its own meanwhile.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.slow
class Described(ApiMaster):
    """Calls that hypothesis makes of the description."""

    timeout = 300

    @case
    async def test_every_answer_is_as_described(self) -> None:
        """No call fails, nothing is executed, and what is refused leaves nothing."""
        self.change(calls_per_minute=1_000_000)
        await self.serve()
        tokens = {
            "ask": self.token("ask"),
            "patch": self.token("ask", "patch", who="bob"),
            "admin": self.token("admin", who="root"),
        }
        base = f"http://127.0.0.1:{self.master.www.getPortnum()}/{API}"
        await self.asked(201, tokens["ask"], boots=2)
        await threads.deferToThread(checked(base, tokens, 150))

        assert len(self.ledger.requests()) > 1, "some of them were granted"
        assert {one.who for one in self.ledger.requests()} <= {"ann", "bob", "root"}
        assert not list(self.folder.rglob("pwned"))
        assert not (Path.cwd() / "pwned").exists()


def test_the_description_is_published() -> None:
    """docs/schemas has what the service serves, and its schemas are schemas."""
    kept = (ROOT / "docs" / "schemas" / "netbisect-openapi-1.json").read_text()

    assert kept == openapi.as_text() + "\n"
    assert TOLD["openapi"].startswith("3.1")
    for one in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(one)


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    """Nothing is described that nobody sends or tells."""
    text = openapi.as_text()
    used = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}

    assert used == set(SCHEMAS)


def test_what_is_sent_has_no_fields_of_which_nobody_knows() -> None:
    """Bodies are closed; their defaults need not be sent."""
    bodies = [name for name in SCHEMAS if name.endswith("Body")]

    assert len(bodies) == 6
    assert all(SCHEMAS[name]["additionalProperties"] is False for name in bodies)
    assert SCHEMAS["AskBody"]["required"] == ["kind"]
    assert SCHEMAS["PriorityBody"]["required"] == ["priority"]
