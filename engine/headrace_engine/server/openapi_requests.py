"""What a route takes, as a JSON schema: made of the very models that check it, narrowed to what this server's
model can do.

Every integer has both bounds, every string, array and map a most, and no object takes an unknown name. What
is accepted only where it asks for nothing stands there with just these values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from headrace_engine.server.json_shape import BodyBounds
from headrace_engine.server.neutral import MESSAGE
from headrace_engine.server.parameters import MAX_BIASES, MAX_TEMPLATE_BYTES, MAX_TEMPLATE_VARIABLES
from headrace_engine.server.prompts import MOST_CHARACTERS_A_TOKEN
from headrace_engine.server.shapes import MAX_PROMPTS, MAX_STOP_BYTES, MAX_STOP_STRINGS

Schema = dict[str, Any]

REF = "#/components/schemas/{model}"
NEUTRAL_PARTS = {"Message": MESSAGE}
"""The tables of objects inside a body."""
MOST_CHARACTERS = {"chat_template_kwargs": MAX_TEMPLATE_BYTES}
MOST_ENTRIES = {"logit_bias": MAX_BIASES, "chat_template_kwargs": MAX_TEMPLATE_VARIABLES}


@dataclass(frozen=True, slots=True)
class Reach:
    """What the bounds of a request depend on."""

    model_names: tuple[str, ...]
    max_model_len: int
    vocab_size: int
    max_num_seqs: int

    @property
    def max_characters(self) -> int:
        return MOST_CHARACTERS_A_TOKEN * self.max_model_len

    @property
    def max_values(self) -> int:
        """Of a whole body."""
        return BodyBounds.of(self.max_model_len).max_values

    @property
    def token_id(self) -> Schema:
        return {"type": "integer", "minimum": 0, "maximum": self.vocab_size - 1}


def request_schema(
    model: type[BaseModel], neutral: Mapping[str, tuple[Any, ...]], reach: Reach
) -> tuple[Schema, dict[str, Schema]]:
    """The schema of a body, and those of the objects in it by their names."""
    schema = model.model_json_schema(ref_template=REF)
    parts: dict[str, Schema] = schema.pop("$defs", {})
    closed = {name: _close(part, NEUTRAL_PARTS.get(name, {}), reach) for name, part in parts.items()}
    return _close(schema, neutral, reach), closed


def _close(schema: Schema, neutral: Mapping[str, tuple[Any, ...]], reach: Reach) -> Schema:
    schema["additionalProperties"] = False
    properties: dict[str, Schema] = schema["properties"]
    for name, given in properties.items():
        properties[name] = given if "type" in given else _shape(name, reach) or given
        _narrow(name, properties[name], reach)
    properties |= {name: _nothing_but(values) for name, values in neutral.items()}
    return _tidied(schema)


def _nothing_but(values: tuple[Any, ...]) -> Schema:
    return {"enum": [*values, None], "description": "Accepted only where it asks for nothing."}


def _shape(name: str, reach: Reach) -> Schema | None:
    """Of what is checked by hand, because a schema says badly what is wrong with it."""
    text = {"type": "string", "minLength": 1, "maxLength": reach.max_characters}
    ids = {"type": "array", "items": reach.token_id, "minItems": 1, "maxItems": reach.max_model_len - 1}
    many = {"type": "array", "minItems": 1, "maxItems": min(MAX_PROMPTS, reach.max_num_seqs)}
    stop = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_BYTES}
    match name:
        case "prompt":
            return {"anyOf": [text, ids, many | {"items": text}, many | {"items": ids}]}
        case "stop":
            strings = {"type": "array", "items": stop, "maxItems": MAX_STOP_STRINGS}
            return {"anyOf": [stop, strings, {"type": "null"}]}
        case _:
            return None


def _narrow(name: str, schema: Schema, reach: Reach) -> None:
    """Lowers what this server's model bounds further, in the schema of the property `name`."""
    for part in _parts(schema):
        match part.get("type"):
            case "integer":
                part["maximum"] = min(part["maximum"], _most(name, reach, part["maximum"]))
                if name == "truncate_prompt_tokens":
                    part["not"] = {"const": 0}
            case "string" if not part.keys() & {"enum", "const", "pattern"}:
                part.setdefault("maxLength", MOST_CHARACTERS.get(name, reach.max_characters))
            case "array":
                part.setdefault("maxItems", reach.max_values)
            case "object":
                part |= {"maxProperties": MOST_ENTRIES[name], "additionalProperties": False}
        if name == "model" and part.get("type") == "string":
            part["enum"] = list(reach.model_names)


def _most(name: str, reach: Reach, otherwise: int) -> int:
    if name.endswith("token_ids") or name == "tokens":
        return reach.vocab_size - 1
    if name in ("max_tokens", "max_completion_tokens", "min_tokens"):
        return reach.max_model_len - 1
    return reach.max_num_seqs if name in ("n", "best_of") else otherwise


def _parts(schema: Schema) -> list[Schema]:
    """The schema and those that it is made of."""
    inner = [*schema.get("anyOf", ()), *(schema[key] for key in ("items",) if key in schema)]
    inner += schema.get("patternProperties", {}).values()
    return [schema, *(part for each in inner for part in _parts(each))]


def _tidied(schema: Any) -> Any:
    """Null first, without titles made of names, and without defaults that say nothing."""
    if isinstance(schema, list):
        return [_tidied(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("anyOf"), list):
        # Who makes requests of the document begins with what asks for nothing.
        schema["anyOf"].sort(key=lambda part: part.get("type") != "null")
    dull = {"title"} if isinstance(schema.get("title"), str) else set()
    dull |= {"default"} if schema.get("default", 0) is None else set()
    return {name: _tidied(value) for name, value in schema.items() if name not in dull}
