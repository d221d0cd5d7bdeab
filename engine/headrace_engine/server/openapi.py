"""The OpenAPI document of the serving port, for one model: what is taken, what comes back, what can fail."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import orjson
from pydantic import BaseModel

from headrace_engine.core.rates import Metered
from headrace_engine.server import neutral
from headrace_engine.server.claim import FIRST_TOKEN_DEADLINES, LONGEST_MS, QUEUE_DEADLINE
from headrace_engine.server.openapi_answers import ANSWERS, COUNT, STRING, events, named
from headrace_engine.server.openapi_requests import Reach, Schema, request_schema
from headrace_engine.server.parameters import ChatParameters, CompletionParameters
from headrace_engine.server.tokenize_parameters import Detokenize, TokenizeChat, TokenizeText

REFUSALS = {
    400: "Something in the request is not taken; `param` names it.",
    401: "The API key is not valid.",
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    414: "The URL is too long.",
    415: "The body is not plain JSON.",
    429: "Too much is asked of this server; `Retry-After` says when to come back.",
    431: "The headers are too many, or too large.",
    500: "The server failed on this request.",
    503: "The model is being loaded, or the server is leaving.",
}
OF_ANY_URL = (400, 414, 431, 503)
OF_A_READ = (*OF_ANY_URL, 401, 429)
OF_A_BODY = tuple(REFUSALS)
JSON = "application/json"
Table = Mapping[str, tuple[Any, ...]]
NOTHING: Table = {}


@cache
def rendered(reach: Reach) -> bytes:
    """Made once: it takes as long as a step or two, and streams would wait for it."""
    return orjson.dumps(document(reach))


def document(reach: Reach) -> dict[str, Any]:
    """For a server whose model can do so much."""
    parts: dict[str, Schema] = dict(ANSWERS)

    def body(model: type[BaseModel], table: Table = NOTHING) -> Schema:
        schema, inner = request_schema(model, table, reach)
        parts.update(inner)
        parts[model.__name__] = schema
        return named(model.__name__)

    chat, text = body(ChatParameters, neutral.CHAT), body(CompletionParameters, neutral.COMPLETION)
    to_encode = {"anyOf": [body(TokenizeText), body(TokenizeChat, neutral.CHAT)]}
    paths = {
        "/v1/chat/completions": {
            "post": _generates("Answer a conversation", chat, "ChatCompletion", "ChatCompletionChunk")
        },
        "/v1/completions": {"post": _generates("Continue a text", text, "Completion", "CompletionChunk")},
        "/tokenize": {"post": _posts("Encode a text or a conversation", to_encode, {JSON: named("Tokens")})},
        "/detokenize": {"post": _posts("Decode ids", body(Detokenize), {JSON: named("Text")})},
        "/v1/models": {"get": _reads("List the model's names", "Models")},
        "/v1/models/{name}": {
            "parameters": [_model_name(reach)],
            "get": _reads("Look up a name of the model", "Model", 404),
        },
        "/openapi.json": {"get": _reads("This document", None)},
        **_probes(),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace", "version": version("headrace")},
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # Where the server has no keys, none is asked for.
        "security": [{"key": []}, {}],
    }


def _model_name(reach: Reach) -> Schema:
    names = {"type": "string", "enum": list(reach.model_names)}
    return {"name": "name", "in": "path", "required": True, "schema": names}


def _deadlines() -> list[Schema]:
    schema = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_MS}
    meanings = {QUEUE_DEADLINE: "Refuse me (429) if I wait longer in the queue."}
    meanings |= dict.fromkeys(
        FIRST_TOKEN_DEADLINES, "When the first token is wanted; a matter of order alone."
    )
    return [
        {"name": name, "in": "header", "schema": schema, "description": f"Milliseconds. {meaning}"}
        for name, meaning in meanings.items()
    ]


def _generates(summary: str, body: Schema, whole: str, chunk: str) -> Schema:
    answers = {JSON: named(whole), "text/event-stream": events(chunk)}
    posts = _posts(summary, body, answers)
    for status in ("200", "429"):
        posts["responses"][status]["headers"] = _allowances()
    return posts | {"parameters": _deadlines()}


def _allowances() -> Schema:
    """Of a tenant that has a rate, what this engine lets through of it."""
    told = {"limit": ("A minute's worth", COUNT), "remaining": ("What is left of it", COUNT)}
    told |= {"reset": ("When all of it is there again, such as 7.66s", STRING)}
    return {
        f"x-ratelimit-{what}-{of}": {"description": f"{meaning}, in {of}.", "schema": schema}
        for of in Metered
        for what, (meaning, schema) in told.items()
    }


def _posts(summary: str, body: Schema, answers: dict[str, Schema]) -> Schema:
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {JSON: {"schema": body}}},
        "responses": _responses(answers, OF_A_BODY),
    }


def _reads(summary: str, answer: str | None, *refusals: int) -> Schema:
    schema = {"type": "object"} if answer is None else named(answer)
    return {"summary": summary, "responses": _responses({JSON: schema}, (*OF_A_READ, *refusals))}


def _probes() -> dict[str, Schema]:
    state = {JSON: {"schema": named("State")}}
    bad = {"503": {"description": "It is not.", "content": state}}
    probes = {
        "/livez": "Whether it steps",
        "/readyz": "Whether to send requests",
        "/health": "Whether it serves",
    }
    found: dict[str, Schema] = {}
    for path, summary in probes.items():
        responses = _responses({JSON: named("State")}, OF_ANY_URL) | bad
        found[path] = {method: _open(summary, responses) for method in ("get", "head")}
    metrics = _responses({"text/plain": {"type": "string"}}, OF_ANY_URL)
    found["/metrics"] = {method: _open("Prometheus metrics", metrics) for method in ("get", "head")}
    return found


def _open(summary: str, responses: Schema) -> Schema:
    """No key is asked for."""
    return {"summary": summary, "responses": responses, "security": []}


def _responses(answers: dict[str, Schema], refusals: tuple[int, ...]) -> Schema:
    content = {media_type: {"schema": schema} for media_type, schema in answers.items()}
    error = {JSON: {"schema": named("Error")}}
    return {"200": {"description": "It is done.", "content": content}} | {
        str(status): {"description": REFUSALS[status], "content": error} for status in sorted(refusals)
    }
