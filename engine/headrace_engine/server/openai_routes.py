"""`/v1/chat/completions`, `/v1/completions`, `/v1/models`, `/v1/models/NAME`, `/tokenize`.

A handler reads and checks the body, encodes the prompt, submits, and waits for the first result before it
sends a header: what fails early fails with a status. From then on an answer ends with a finish reason or an
error event.
"""

import uuid
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace_engine.core.request import FinishReason
from headrace_engine.server import parameters as takes
from headrace_engine.server.admission import submit
from headrace_engine.server.errors import ApiError, ErrorBody, invalid
from headrace_engine.server.generation import Delta, Disconnected, Generation
from headrace_engine.server.output import Usage
from headrace_engine.server.parameters import GenerationParameters
from headrace_engine.server.responses import CLIENT_CLOSED_REQUEST, EventStream, json_bytes, json_response
from headrace_engine.server.service import Service, Serving
from headrace_engine.server.wire import (
    DONE,
    Answer,
    Chunks,
    error_event,
    model_card,
    now_unix_s,
    whole_answer,
)

NO_USAGE = Usage(0, 0, 0)
"""For chunks that do not tell it: adding it up for each would cost more than the chunk."""


def openai_routes(service: Service) -> APIRouter:
    """Who asks, the app finds out: it stands in `request.state.claim`."""
    router = APIRouter()

    @router.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        serving = service.serving()
        async with service.bodies.read_json(request, serving.body_bounds) as body:
            arrival_s = serving.engine.clock()
            parameters = takes.chat_parameters(body)
            _check_model(service, parameters.model)
            prompts = [await serving.prompts.chat(parameters)]
        return await _answer(request, serving, parameters, prompts, arrival_s)

    @router.post("/v1/completions")
    async def completions(request: Request) -> Response:
        serving = service.serving()
        async with service.bodies.read_json(request, serving.body_bounds) as body:
            arrival_s = serving.engine.clock()
            parameters = takes.completion_parameters(body)
            _check_model(service, parameters.model)
            prompts = await serving.prompts.completion(parameters)
        return await _answer(request, serving, parameters, prompts, arrival_s)

    @router.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        serving = service.serving()
        async with service.bodies.read_json(request, serving.body_bounds) as body:
            parameters = takes.validated(takes.TokenizeParameters, body)
            if parameters.model is not None:
                _check_model(service, parameters.model)
            ids = await serving.prompts.text(parameters.prompt)
        return json_response(
            {"count": len(ids), "max_model_len": serving.engine.model.capacity.max_model_len, "tokens": ids}
        )

    @router.get("/v1/models")
    async def models() -> Response:
        cards = [_card(service, name) for name in service.model_names]
        return json_response({"object": "list", "data": cards})

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        _check_model(service, name)
        return json_response(_card(service, name))

    return router


def _card(service: Service, name: str) -> dict[str, Any]:
    serving = service.serving()
    length = serving.engine.model.capacity.max_model_len
    return model_card(name, service.model_names[0], serving.started_unix_s, length)


def _check_model(service: Service, name: str) -> None:
    if name not in service.model_names:
        known = ", ".join(service.model_names)
        message = f"The model {name[:64]!r} does not exist here. This server has {known}."
        raise invalid("model", message, code="model_not_found", status=404)


async def _answer(
    request: Request,
    serving: Serving,
    parameters: GenerationParameters,
    prompts: list[tuple[int, ...]],
    arrival_s: float,
) -> Response:
    is_chat = isinstance(parameters, takes.ChatParameters)
    answer = Answer(
        id=f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}",
        model=parameters.model,
        fingerprint=serving.fingerprint,
        created=now_unix_s(),
        is_chat=is_chat,
    )
    generation = submit(serving, parameters, prompts, answer.id, arrival_s, claim=request.state.claim)
    generation.watch(request.receive)
    try:
        first = await generation.next()
        if parameters.stream:
            chunks = _chunks(answer, parameters)
            return EventStream(_stream(generation, first, chunks, len(prompts)), generation.close)
        body = await _whole(generation, first, answer, len(prompts))
    except Disconnected:
        generation.close()
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    except BaseException:
        generation.close()
        raise
    generation.close()
    return json_bytes(body)


def _chunks(answer: Answer, parameters: GenerationParameters) -> Chunks:
    options = parameters.stream_options or takes.StreamOptions()
    return Chunks(
        answer,
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.continuous_usage_stats),
    )


async def _whole(generation: Generation, deltas: list[Delta], answer: Answer, num_choices: int) -> bytes:
    texts: list[str] = [""] * num_choices
    reasons: list[FinishReason] = [FinishReason.LENGTH] * num_choices
    while True:
        for delta in deltas:
            texts[delta.index] += delta.text
            if delta.finish_reason is not None:
                reasons[delta.index] = delta.finish_reason
        if generation.done:
            return whole_answer(answer, texts, [reason.value for reason in reasons], generation.usage)
        deltas = await generation.next()


async def _stream(
    generation: Generation, deltas: list[Delta], chunks: Chunks, num_choices: int
) -> AsyncIterator[bytes]:
    """Ends with `[DONE]` whatever happens, unless nobody is there to read it."""
    try:
        events = b"".join(chunks.role(index, generation.usage) for index in range(num_choices))
        while True:
            events += _rendered(deltas, chunks, generation)
            if events:
                yield events
            if generation.done:
                break
            deltas, events = await generation.next(), b""
        yield chunks.usage(generation.usage) + DONE
    except Disconnected:
        return
    except ApiError as error:
        yield error_event(error.body.document()) + DONE
    except Exception:
        yield error_event(ErrorBody("The server failed on this request.", "server_error").document()) + DONE
        raise


def _rendered(deltas: list[Delta], chunks: Chunks, generation: Generation) -> bytes:
    events = []
    usage = generation.usage if chunks.continuous_usage else NO_USAGE
    for delta in deltas:
        if delta.text:
            events.append(chunks.text(delta.index, delta.text, usage))
        if delta.finish_reason is not None:
            events.append(chunks.finish(delta.index, delta.finish_reason, usage))
    return b"".join(events)
