"""What clients get, as JSON schemas: answers of both routes, the stream's chunks, models, errors.

What is named here is always there; what a later version adds stands beside it.
"""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def record(**properties: Schema) -> Schema:
    """An object that has all of these."""
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def one_of(*names: str) -> Schema:
    return {"type": "string", "enum": list(names)}


def named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def events(chunk: str) -> Schema:
    """One of a stream: a chunk, or what ended the stream early, or its last word."""
    payload = {"anyOf": [named(chunk), named("Error")]}
    told = {"type": "string", "contentMediaType": "application/json", "contentSchema": payload}
    return record(data={"anyOf": [{"const": "[DONE]"}, told]})


FINISH_REASON = one_of("stop", "length")
_HEAD = {"id": STRING, "created": COUNT, "model": STRING, "system_fingerprint": STRING}
_TOKEN = {"token": STRING, "logprob": NUMBER, "bytes": maybe(listed(COUNT))}
_CHAT_LOGPROBS = record(content=listed(record(**_TOKEN, top_logprobs=listed(record(**_TOKEN)))))
_TEXT_LOGPROBS = record(
    tokens=listed(STRING),
    token_logprobs=listed(maybe(NUMBER)),
    top_logprobs=maybe(listed(maybe({"type": "object", "additionalProperties": NUMBER}))),
    text_offset=listed(COUNT),
)


def _choice(*, ends: bool, logprobs: Schema, **content: Schema) -> Schema:
    reason = FINISH_REASON if ends else maybe(FINISH_REASON)
    return record(index=COUNT, finish_reason=reason, logprobs=maybe(logprobs), **content)


_MESSAGE = record(role=one_of("assistant"), content=STRING, refusal={"type": "null"})
_DELTA = {"type": "object", "properties": {"role": one_of("assistant"), "content": STRING}}

ANSWERS: dict[str, Schema] = {
    "Error": record(error=record(message=STRING, type=STRING, param=maybe(STRING), code=maybe(STRING))),
    "Usage": record(
        prompt_tokens=COUNT,
        completion_tokens=COUNT,
        total_tokens=COUNT,
        prompt_tokens_details=record(cached_tokens=COUNT),
    ),
    "ChatCompletion": record(
        **_HEAD,
        object=one_of("chat.completion"),
        choices=listed(_choice(ends=True, logprobs=_CHAT_LOGPROBS, message=_MESSAGE)),
        usage=named("Usage"),
    ),
    "ChatCompletionChunk": record(
        **_HEAD,
        object=one_of("chat.completion.chunk"),
        choices=listed(_choice(ends=False, logprobs=_CHAT_LOGPROBS, delta=_DELTA)),
    ),
    "Completion": record(
        **_HEAD,
        object=one_of("text_completion"),
        choices=listed(_choice(ends=True, logprobs=_TEXT_LOGPROBS, text=STRING)),
        usage=named("Usage"),
    ),
    "CompletionChunk": record(
        **_HEAD,
        object=one_of("text_completion"),
        choices=listed(_choice(ends=False, logprobs=_TEXT_LOGPROBS, text=STRING)),
    ),
    "Model": record(
        id=STRING,
        object=one_of("model"),
        created=COUNT,
        owned_by=STRING,
        root=STRING,
        parent={"type": "null"},
        max_model_len=COUNT,
    ),
    "Models": record(object=one_of("list"), data=listed(named("Model"))),
    "Tokens": record(
        count=COUNT, max_model_len=COUNT, tokens=listed(COUNT), token_strs=maybe(listed(STRING))
    ),
    "Text": record(prompt=STRING),
    "State": record(status=STRING),
}
"""By the names under which the document has them."""
