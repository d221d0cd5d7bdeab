"""`/openapi.json`: what this server takes, for whoever may use it. There is no page that shows it."""

from fastapi import APIRouter
from starlette.responses import Response

from headrace_engine.server.responses import json_bytes
from headrace_engine.server.service import Service


def openapi_routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.get("/openapi.json")
    async def openapi() -> Response:
        # Once asked for; a start need not wait for these.
        from headrace_engine.server.openapi import rendered  # noqa: PLC0415
        from headrace_engine.server.openapi_requests import Reach  # noqa: PLC0415

        model = service.serving().engine.model
        reach = Reach(
            service.model_names,
            max_model_len=model.capacity.max_model_len,
            vocab_size=model.vocab_size,
            max_num_seqs=model.capacity.max_num_seqs,
        )
        return json_bytes(rendered(reach))

    return router
