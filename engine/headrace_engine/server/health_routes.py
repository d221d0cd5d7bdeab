"""Probes and metrics, answered from memory: none of them asks the engine anything."""

from functools import partial

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from headrace_engine.server.responses import json_response
from headrace_engine.server.service import Phase, Service


def health_routes(service: Service) -> APIRouter:
    router = APIRouter()
    probe = partial(router.api_route, methods=["GET", "HEAD"])

    @probe("/livez")
    async def livez() -> Response:
        """Restart me if this fails: a step is stuck, or has failed."""
        return _state(service.is_live, "live", "stuck")

    @probe("/health")
    async def health() -> Response:
        """vLLM's: loaded and alive, draining or not."""
        return _state(service.is_live and service.phase is not Phase.LOADING, "healthy", service.phase.value)

    @probe("/readyz")
    async def readyz() -> Response:
        """Send me requests only while this succeeds."""
        service.readiness_watched = True
        return _state(service.is_ready, "ready", service.phase.value)

    @probe("/metrics")
    async def metrics() -> Response:
        body = service.serving().metrics.render()
        return Response(body, headers={"content-type": CONTENT_TYPE_LATEST})

    return router


def _state(good: bool, yes: str, no: str) -> Response:  # noqa: FBT001 - the answer itself
    if good:
        return json_response({"status": yes})
    return json_response({"status": no}, 503, {"retry-after": "1"})
