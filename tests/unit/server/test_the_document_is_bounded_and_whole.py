"""The OpenAPI document leaves nothing of a request open, and no route out."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from headrace_engine.server import app as apps
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.neutral import CHAT
from headrace_engine.server.openapi import document
from headrace_engine.server.openapi_requests import Reach
from headrace_engine.server.parameters import ChatParameters
from headrace_engine.server.service import Service

REACH = Reach(("chat", "org/chat"), max_model_len=128, vocab_size=1000, max_num_seqs=4)
DOCUMENT = document(REACH)
PARTS = DOCUMENT["components"]["schemas"]


def inside(schema: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all schemas that it is made of, by reference too."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        yield from inside(PARTS[name], f"{where}:{name}")
        return
    yield where, schema
    for key in ("properties", "patternProperties"):
        for name, part in schema.get(key, {}).items():
            yield from inside(part, f"{where}.{name}")
    for part in schema.get("anyOf", ()):
        yield from inside(part, where)
    yield from inside(schema.get("items"), f"{where}[]")


BODIES = {
    path: methods["post"]["requestBody"]["content"]["application/json"]["schema"]
    for path, methods in DOCUMENT["paths"].items()
    if "post" in methods
}


@pytest.mark.parametrize("path", BODIES)
def test_nothing_in_a_request_is_without_bounds(path) -> None:
    """A negative count overflowed a heap elsewhere (CVE-2026-21869): every number here has two ends."""
    parts = list(inside(BODIES[path], path))
    assert len(parts) > 3
    for where, part in parts:
        match part.get("type"):
            case "integer":
                assert {"minimum", "maximum"} <= part.keys(), where
            case "number":
                assert "maximum" in part, where
                assert part.keys() & {"minimum", "exclusiveMinimum"}, where
            case "string":
                assert part.keys() & {"enum", "const", "pattern", "maxLength"}, where
            case "array":
                assert "maxItems" in part, where
            case "object":
                assert part["additionalProperties"] is False, where
                assert "properties" in part or "maxProperties" in part, where
            case kind:
                assert kind in ("boolean", "null") or part.keys() & {"enum", "anyOf"}, where


def test_the_models_bounds_are_the_documents() -> None:
    properties = PARTS["ChatParameters"]["properties"]
    assert properties["model"]["enum"] == ["chat", "org/chat"]
    assert {part.get("maximum") for _, part in inside(properties["max_tokens"], "")} == {None, 127}
    assert {part.get("maximum") for _, part in inside(properties["n"], "")} == {None, 4}
    assert {part.get("maximum") for _, part in inside(properties["stop_token_ids"], "")} == {None, 999}


def test_every_parameter_that_is_checked_is_in_the_document_and_no_other() -> None:
    assert PARTS["ChatParameters"]["properties"].keys() == ChatParameters.model_fields.keys() | CHAT.keys()


def test_every_route_of_the_serving_port_is_in_the_document_and_no_other() -> None:
    app = apps.serving_app(Service(("chat",), HttpLimits()))
    pending, served = list(app._app.routes), set()
    while pending:
        route = pending.pop()
        pending += route.original_router.routes if hasattr(route, "original_router") else []
        if hasattr(route, "methods"):
            path = route.path.replace(":path}", "}")
            served |= {(path, method.lower()) for method in route.methods}
    told = {
        (path, method)
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
        if method != "parameters"
    }
    assert served == told


def test_the_schemas_are_schemas() -> None:
    for schema in PARTS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
