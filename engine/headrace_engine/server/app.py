"""The two apps, serving and admin: routes, errors in OpenAI's shape, the guard around both.

No pages of documentation, no cross-origin headers, no redirects. Whatever a client sends, the framework's own
error pages are never what it gets.
"""

from collections.abc import Sequence
from contextlib import suppress

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends as DependsType
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp

from headrace_engine.link.client import CoreLostError
from headrace_engine.server.admin_auth import AdminAuth
from headrace_engine.server.admin_routes import AdminCalls, drain_routes, limit_routes
from headrace_engine.server.drain import Drain
from headrace_engine.server.errors import ApiError, failed, invalid
from headrace_engine.server.guard import Guard, OnAnswer
from headrace_engine.server.health_routes import health_routes
from headrace_engine.server.openai_routes import openai_routes
from headrace_engine.server.openapi_routes import openapi_routes
from headrace_engine.server.peer import peer_of
from headrace_engine.server.responses import CLIENT_CLOSED_REQUEST, error_response
from headrace_engine.server.service import Service, restarting
from headrace_engine.server.telemetry_routes import telemetry_routes
from headrace_engine.server.tokenize_routes import tokenize_routes
from headrace_engine.telemetry.logs import request_id_in_log

QUIET_PATHS = frozenset({"/livez", "/readyz", "/health", "/metrics", "/v1/admin/telemetry"})


def serving_app(service: Service) -> ASGIApp:
    """What clients reach. Whoever adds a route need not think of keys: all ask for one, but those here that
    ask for none.
    """

    async def identify(request: Request) -> None:
        address = peer_of(request.client.host) if request.client else ""
        request.state.claim = await service.serving().claim(request.headers, address)

    def answered(handler: str | None, method: str, status: int, seconds: float) -> None:
        with suppress(ApiError):  # while the model loads, nobody can read what was counted
            service.serving().metrics.http.answered(handler, method, status, seconds)

    return _guarded(
        service,
        openai_routes(service),
        tokenize_routes(service),
        openapi_routes(service),
        asks=[Depends(identify)],
        asks_nothing=health_routes(service),
        on_answer=answered,
    )


def admin_app(service: Service, auth: AdminAuth, drain: Drain, default_drain_s: float) -> ASGIApp:
    """What the operator reaches, on a port of its own."""
    calls = AdminCalls(auth, service.http_limits.body_timeout_s)
    drains = drain_routes(service, calls, drain, default_drain_s)
    return _guarded(service, limit_routes(service, calls), drains, telemetry_routes(service, calls))


def _guarded(
    service: Service,
    *routers: APIRouter,
    asks: Sequence[DependsType] = (),
    asks_nothing: APIRouter | None = None,
    on_answer: OnAnswer = lambda *_: None,
) -> ASGIApp:
    app = FastAPI(
        openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, dependencies=list(asks)
    )
    if asks_nothing is not None:
        app.router.routes += asks_nothing.routes
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(CoreLostError, _restarting)
    app.add_exception_handler(HTTPException, _no_such_route)
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(ClientDisconnect, _client_left)
    app.add_exception_handler(Exception, _own_fault)
    return Guard(
        *(app, service.http_limits),
        is_leaving=lambda: service.is_leaving,
        quiet=QUIET_PATHS,
        on_answer=on_answer,
    )


async def _api_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error)


async def _restarting(_request: Request, _error: Exception) -> Response:
    """The core is gone while something was asked of it: what every other request is told from now on."""
    return error_response(restarting())


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:200]}: {error.detail}"
    response = error_response(invalid(None, message, status=error.status_code))
    response.headers.update(error.headers or {})
    return response


async def _bad_request(_request: Request, _error: Exception) -> Response:
    return error_response(invalid(None, "The request is not valid."))


async def _client_left(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _own_fault(_request: Request, _error: Exception) -> Response:
    return error_response(failed(f"The server failed on this request ({request_id_in_log.get()})."))
