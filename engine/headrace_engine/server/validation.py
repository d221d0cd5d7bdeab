"""A JSON object as a model of parameters, and its first fault as an error that names it."""

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from headrace_engine.server.errors import ApiError, invalid

Parameters = TypeVar("Parameters", bound=BaseModel)


def validated(model: type[Parameters], body: Mapping[str, Any]) -> Parameters:
    """The body as `model`, or `ApiError` for the first thing that is wrong with it."""
    for name in body.keys() - model.model_fields.keys():
        near = difflib.get_close_matches(name[:64], model.model_fields, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise invalid(name[:64], f"Unknown parameter: {name[:64]!r}.{hint}")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> ApiError:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    of_first = [each for each in errors if each["loc"][:1] == errors[0]["loc"][:1]]
    worst = max(of_first, key=lambda each: len(each["loc"]))
    param = _path(worst["loc"])
    match worst["type"]:
        case "missing":
            return invalid(param, f"Missing required parameter: {param!r}.")
        case "extra_forbidden":
            return invalid(param, f"Unknown parameter: {param!r}.")
        case _:
            return invalid(param, f"{param}: {worst['msg']}.")


def _path(location: tuple[int | str, ...]) -> str:
    """`messages[0].content`, without the names that alternatives of a type add to a location."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier() and part not in _ALTERNATIVES:
            path += f".{part}" if path else part
    return path[:128]


_ALTERNATIVES = frozenset({"str", "int", "float", "bool", "none"})
