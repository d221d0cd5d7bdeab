"""`/v1/chat/completions`, `/v1/completions`, `/v1/models`, `/v1/models/NAME`.

A handler reads and checks the body, encodes the prompt, submits, and waits for the first result before it
sends a header: what fails early fails with a status. From then on an answer ends with a finish reason or an
error event.
"""

import uuid
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace_engine.server import parameters as takes
from headrace_engine.server.admission import submit
from headrace_engine.server.aside import aside
from headrace_engine.server.bounds import Wanted
from headrace_engine.server.errors import ApiError
from headrace_engine.server.generation import Disconnected, Generation
from headrace_engine.server.output import Delta
from headrace_engine.server.parameters import GenerationParameters
from headrace_engine.server.prompts import Prompt
from headrace_engine.server.responses import CLIENT_CLOSED_REQUEST, EventStream, json_bytes, json_response
from headrace_engine.server.service import Service, Serving
from headrace_engine.server.stream import Stream
from headrace_engine.server.whole import Whole
from headrace_engine.server.wire import Answer, Chunks, model_card, now_unix_s
from headrace_engine.server.wishes import Wishes


def openai_routes(service: Service) -> APIRouter:
    """Who asks, the app finds out: it stands in `request.state.claim`."""
    router = APIRouter()

    @router.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        serving = service.serving()
        async with service.bodies.read_json(request, serving.body_bounds) as body:
            arrival_s = serving.engine.clock()
            parameters = takes.chat_parameters(body)
            service.check_model(parameters.model)
            prompts = [await serving.prompts.chat(parameters)]
            wanted = await _wanted(request, serving, parameters, prompts)
        return await _answer(request, serving, wanted, arrival_s)

    @router.post("/v1/completions")
    async def completions(request: Request) -> Response:
        serving = service.serving()
        async with service.bodies.read_json(request, serving.body_bounds) as body:
            arrival_s = serving.engine.clock()
            parameters = takes.completion_parameters(body)
            service.check_model(parameters.model)
            prompts = await serving.prompts.completion(parameters)
            wanted = await _wanted(request, serving, parameters, prompts)
        return await _answer(request, serving, wanted, arrival_s)

    @router.get("/v1/models")
    async def models() -> Response:
        cards = [_card(service, name) for name in service.model_names]
        return json_response({"object": "list", "data": cards})

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        service.check_model(name)
        return json_response(_card(service, name))

    return router


def _card(service: Service, name: str) -> dict[str, Any]:
    serving = service.serving()
    length = serving.engine.model.capacity.max_model_len
    return model_card(name, service.model_names[0], serving.started_unix_s, length)


async def _wanted(
    request: Request, serving: Serving, parameters: GenerationParameters, prompts: list[Prompt]
) -> Wanted:
    bad_words = await serving.prompts.bad_words(parameters.bad_words or ())
    return Wanted(parameters, prompts, bad_words, request.state.claim)


async def _answer(request: Request, serving: Serving, wanted: Wanted, arrival_s: float) -> Response:
    """Tells, with the answer or the error, what is left of the tenant's rates."""
    engine, tenant = serving.engine, wanted.claim.tenant
    try:
        response = await _generated(request, serving, wanted, arrival_s)
    except ApiError as error:
        error.allowances = engine.allowances(tenant)
        raise
    response.headers.update(engine.allowances(tenant))
    return response


async def _generated(request: Request, serving: Serving, wanted: Wanted, arrival_s: float) -> Response:
    parameters = wanted.parameters
    is_chat = isinstance(parameters, takes.ChatParameters)
    answer = Answer(
        id=f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}",
        model=parameters.model,
        fingerprint=serving.fingerprint,
        created=now_unix_s(),
        is_chat=is_chat,
    )
    wishes = Wishes.of(parameters, serving.engine.model.tokenizer)
    generation = submit(serving, wanted, answer.id, arrival_s)
    generation.watch(request.receive)
    try:
        first = await generation.next()
        if parameters.stream:
            stream = Stream(generation, _chunks(answer, parameters), wishes)
            return EventStream(stream.events(first), generation.close)
        whole = Whole(answer, generation.choices, wishes, parameters.num_choices)
        body = await _gathered(generation, first, whole)
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


async def _gathered(generation: Generation, deltas: list[Delta], whole: Whole) -> bytes:
    while True:
        num_told = sum(delta.num_told for delta in deltas)
        await aside(num_told, partial(whole.add, deltas))
        if generation.done:
            return await aside(whole.num_told, whole.body)
        deltas = await generation.next()
