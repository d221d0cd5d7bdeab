"""Responses of the shapes that this server sends: JSON, errors, event streams."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace_engine.server.errors import ApiError, ErrorBody

CLIENT_CLOSED_REQUEST = 499
"""For the log alone: nobody is there to read it."""


def json_response(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_bytes(orjson.dumps(document), status, headers)


def json_bytes(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


def error_response(error: ApiError) -> Response:
    return json_bytes(error_bytes(error.body), error.status, error.headers())


def error_bytes(body: ErrorBody) -> bytes:
    return orjson.dumps(body.document())


class EventStream(Response):
    """Sends server-sent events as they come, and calls `on_close` whatever happens."""

    def __init__(self, events: AsyncIterator[bytes], on_close: Callable[[], None]) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self._events = events
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._on_close()
