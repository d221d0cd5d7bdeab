"""No number of a request is without bounds: what reads it may be C.

CVE-2026-21869: a negative number of tokens to keep became a heap overflow.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from headrace_engine.server import parameters

MODELS = [
    model
    for _, model in inspect.getmembers(parameters, inspect.isclass)
    if issubclass(model, BaseModel) and model.__module__ == parameters.__name__
]
LEAST, MOST = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}


def parts(schema: Any, types: tuple[str, ...], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of a schema that has one of the types, with where it stands."""
    if isinstance(schema, dict):
        if schema.get("type") in types:
            yield path, schema
        for name, part in schema.items():
            yield from parts(part, types, f"{path}/{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from parts(part, types, path)


def numbers(model: type[BaseModel]) -> list[tuple[str, dict[str, Any]]]:
    return list(parts(model.model_json_schema(), ("integer", "number")))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_number_has_a_least_and_a_most(model) -> None:
    open_ended = [
        path
        for path, schema in numbers(model)
        if not ((LEAST & schema.keys() and MOST & schema.keys()) or {"const", "enum"} & schema.keys())
    ]
    assert open_ended == []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_list_has_a_most(model) -> None:
    lists = [
        (path, schema) for path, schema in parts(model.model_json_schema(), ("array",)) if "items" in schema
    ]
    assert [path for path, schema in lists if "maxItems" not in schema] == []


def test_numbers_are_found() -> None:
    found = " ".join(path for model in MODELS for path, _ in numbers(model))
    assert "max_tokens" in found
    assert "temperature" in found
