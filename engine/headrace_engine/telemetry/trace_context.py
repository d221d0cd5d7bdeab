"""The trace that a client's request belongs to, as its W3C headers say, for whoever handles the request."""

from collections.abc import Mapping
from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

trace_headers: ContextVar[Mapping[str, str]] = ContextVar("trace_headers")
"""`traceparent` and `tracestate` of the request being handled, as they came."""
_NAMES = {b"traceparent": "traceparent", b"tracestate": "tracestate"}


class TraceContext:
    """Wraps an app; reads nothing into the headers, so a bad one costs nothing but its trace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope.get("headers", ())
        given = {_NAMES[name]: value.decode("latin-1") for name, value in headers if name in _NAMES}
        token = trace_headers.set(given)
        try:
            await self._app(scope, receive, send)
        finally:
            trace_headers.reset(token)
