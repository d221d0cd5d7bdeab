"""The admin port's routes: read and change the limits, drain. Every call is authorized; what changes
something leaves an audit line, and so does what was refused.
"""

import logging
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace_engine.server.active_limits import ActiveLimits, StaleRevision
from headrace_engine.server.admin_auth import AdminAuth
from headrace_engine.server.body import Bodies
from headrace_engine.server.drain import Drain
from headrace_engine.server.errors import invalid
from headrace_engine.server.json_body import parse_object
from headrace_engine.server.json_shape import BodyBounds
from headrace_engine.server.responses import json_response
from headrace_engine.server.service import Service

audit = logging.getLogger("headrace.audit")

ADMIN_BODY = BodyBounds(256 << 10, max_values=8192, max_depth=16)
"""As many tenants as a service may have, all of them renamed at once, are well below that."""
MOST_BODIES = 16
LONGEST_DRAIN_S = 24 * 3600.0


class AdminCalls:
    """Lets callers in, and writes down what they changed. The operator reads every few seconds, for ever."""

    def __init__(self, auth: AdminAuth, body_timeout_s: float) -> None:
        self._auth = auth
        # Apart from the other port's: strangers cannot use it up.
        self._bodies = Bodies(MOST_BODIES * ADMIN_BODY.max_bytes, body_timeout_s)

    async def document(self, request: Request) -> dict[str, Any]:
        """The call's body, once its caller is known. Nothing is parsed for a stranger."""
        async with self._bodies.read(request, ADMIN_BODY.max_bytes) as body:
            caller = self._auth.caller(request, body)
            document = parse_object(body, ADMIN_BODY) if body else {}
        if request.method != "GET":
            what = {"method": request.method, "path": request.url.path, "change": document}
            audit.info("admin call", extra={"caller": caller, **what})
        return document


def limit_routes(service: Service, calls: AdminCalls) -> APIRouter:
    router = APIRouter(prefix="/v1/admin")

    @router.get("/limits")
    async def get_limits(request: Request) -> Response:
        await calls.document(request)
        return _limits(service.serving().limits)

    @router.patch("/limits")
    async def patch_limits(request: Request) -> Response:
        changes = await calls.document(request)
        limits = service.serving().limits
        if_match = request.headers.get("if-match")
        if if_match is None:
            message = "Send If-Match with the revision that you read: GET gives it as ETag."
            raise invalid(None, message, code="if_match_required", status=428)
        try:
            await limits.change(changes, if_match)
        except StaleRevision:
            return _limits(limits, 412)
        return _limits(limits)

    return router


def drain_routes(service: Service, calls: AdminCalls, drain: Drain, default_drain_s: float) -> APIRouter:
    router = APIRouter(prefix="/v1/admin")

    @router.post("/drain")
    async def post_drain(request: Request) -> Response:
        timeout_s = _timeout_s(await calls.document(request), default_drain_s)
        serving = service.serving()
        drain.begin(timeout_s)
        return json_response({"draining": True, "in_flight": serving.engine.num_unanswered}, 202)

    @router.get("/drain")
    async def get_drain(request: Request) -> Response:
        await calls.document(request)
        in_flight = service.serving().engine.num_unanswered
        return json_response({"draining": drain.begun, "in_flight": in_flight, "drained": drain.drained})

    return router


def _limits(limits: ActiveLimits, status: int = 200) -> Response:
    return json_response(limits.document(), status, {"etag": limits.etag})


def _timeout_s(document: dict[str, Any], default_s: float) -> float:
    for name in document.keys() - {"timeout_s"}:
        raise invalid(name[:64], f"Unknown parameter: {name[:64]!r}.")
    value = document.get("timeout_s", default_s)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_DRAIN_S:
        raise invalid("timeout_s", f"timeout_s takes 0 to {LONGEST_DRAIN_S:.0f} seconds.")
    return float(value)
