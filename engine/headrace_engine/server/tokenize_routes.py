"""`/tokenize` and `/detokenize`, as vLLM's: a text or a conversation to ids, and ids to text."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace_engine.server import parameters as takes
from headrace_engine.server.neutral import CHAT, without_neutral
from headrace_engine.server.responses import json_response
from headrace_engine.server.service import Service, Serving
from headrace_engine.server.tokenize_parameters import Detokenize, TokenizeChat, TokenizeText
from headrace_engine.server.validation import validated


def tokenize_routes(service: Service) -> APIRouter:
    """Who asks, the app finds out."""
    router = APIRouter()

    @router.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        serving = service.serving()
        async with service.bodies.read_json(request, serving.body_bounds) as body:
            asked, ids = await _encoded(serving, service, body)
        tokenizer, capacity = serving.engine.model.tokenizer, serving.engine.model.capacity
        strings = [tokenizer.token_string(each) for each in ids] if asked.return_token_strs else None
        return json_response(
            {
                "count": len(ids),
                "max_model_len": capacity.max_model_len,
                "tokens": ids,
                "token_strs": strings,
            }
        )

    @router.post("/detokenize")
    async def detokenize(request: Request) -> Response:
        serving = service.serving()
        async with service.bodies.read_json(request, serving.body_bounds) as body:
            asked = validated(Detokenize, body)
            service.check_model(asked.model)
            serving.prompts.check_ids("tokens", asked.tokens)
            text = await serving.prompts.decoded(asked.tokens)
        return json_response({"prompt": text})

    return router


async def _encoded(
    serving: Serving, service: Service, body: dict[str, Any]
) -> tuple[TokenizeText | TokenizeChat, list[int]]:
    if "messages" not in body:
        text = validated(TokenizeText, body)
        service.check_model(text.model)
        special = text.add_special_tokens is not False
        return text, await serving.prompts.text(text.prompt, add_special_tokens=special)
    honored = takes.with_plain_messages(without_neutral(body, CHAT))
    chat = validated(TokenizeChat, honored)
    takes.check_conversation(chat)
    service.check_model(chat.model)
    return chat, await serving.prompts.conversation(chat)
