"""The outermost layer: no request passes without bounds, an id, safe headers, an answer, a line and a count.

Plain ASGI, because a wrapper that buffers would break streams. What the app raises becomes a 500 of
constant text.
"""

import asyncio
import contextlib
import logging
import re
import time
import uuid
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace_engine.server.errors import ApiError, failed, invalid, unavailable
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.responses import error_response
from headrace_engine.telemetry.logs import request_id_in_log

log = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_LONGEST_LOGGED_PATH = 200


OnAnswer = Callable[[str | None, str, int, float], None]
"""Told the route's template (None: there is no such route), method, status and seconds of each answer."""


class Guard:
    """Wraps an app. `is_leaving` tells when connections should not be kept alive."""

    def __init__(
        self,
        app: ASGIApp,
        limits: HttpLimits,
        *,
        is_leaving: Callable[[], bool],
        quiet: frozenset[str],
        on_answer: OnAnswer,
    ) -> None:
        self._app = app
        self._limits = limits
        self._is_leaving = is_leaving
        self._quiet = quiet
        """Paths that are asked for every few seconds, and not worth a line or a count."""
        self._on_answer = on_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = _Exchange(scope, receive, send, linger_s=self._limits.linger_s)
        token = request_id_in_log.set(exchange.request_id)
        try:
            await self._answer(scope, exchange)
        finally:
            self._tell(scope, exchange)
            request_id_in_log.reset(token)

    async def _answer(self, scope: Scope, exchange: "_Exchange") -> None:
        try:
            exchange.closing = True
            self._check(scope)
            exchange.closing = self._is_leaving()
            await self._app(scope, exchange.receive, exchange.send)
        except ApiError as error:
            await error_response(error)(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            if exchange.status:
                raise
            # The server ends and waits no longer for the rest of this request.
            exchange.hurry()
            gone = unavailable("shutting_down", "The server is shutting down and ended this request.")
            await error_response(gone)(scope, exchange.receive, exchange.send)
        except Exception:
            log.exception("request failed")
            if not exchange.status:
                message = f"The server failed on this request ({exchange.request_id})."
                await error_response(failed(message))(scope, exchange.receive, exchange.send)

    def _check(self, scope: Scope) -> None:
        limits, headers = self._limits, scope["headers"]
        if scope["http_version"] not in ("1.0", "1.1"):
            raise invalid(None, "This server speaks HTTP/1.1.", status=505)
        if len(scope["raw_path"]) + len(scope["query_string"]) > limits.max_url_bytes:
            raise invalid(None, f"The URL is longer than {limits.max_url_bytes} bytes.", status=414)
        if len(headers) > limits.max_headers:
            raise invalid(None, f"There are more than {limits.max_headers} headers.", status=431)
        if sum(len(name) + len(value) + 4 for name, value in headers) > limits.max_header_bytes:
            raise invalid(None, f"The headers are longer than {limits.max_header_bytes} bytes.", status=431)
        names = [name for name, _ in headers]
        if b"content-length" in names and b"transfer-encoding" in names:
            raise invalid(None, "A request has a Content-Length or a Transfer-Encoding, not both.")
        if names.count(b"host") > 1:
            raise invalid(None, "A request has one Host header.")

    def _tell(self, scope: Scope, exchange: "_Exchange") -> None:
        if scope["path"] in self._quiet:
            return
        method, status = scope["method"], exchange.status
        seconds = time.monotonic() - exchange.began_s
        path = scope["path"][:_LONGEST_LOGGED_PATH]
        told = {"method": method, "path": path, "status": status, "seconds": round(seconds, 4)}
        log.info("request", extra=told)
        if status:
            self._on_answer(getattr(scope.get("route"), "path", None), method, status, seconds)


class _Exchange:
    """One request and its response on their way through."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, linger_s: float) -> None:
        headers = dict(scope["headers"])
        self.request_id = _request_id(headers.get(b"x-request-id", b""))
        self.began_s = time.monotonic()
        self.status = 0
        self.closing = False
        """Whether the connection ends with this response."""
        self._receive = receive
        self._send = send
        self._linger_s = linger_s
        # Reading from who expects a word first would tell it to go on.
        self._may_linger = b"expect" not in headers
        self._body_left = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._body_left = False
        return message

    def hurry(self) -> None:
        """Read nothing more of a body that is left, and close."""
        self._may_linger, self.closing = False, True

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._own_headers()]}
        elif self._body_left and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _own_headers(self) -> list[tuple[bytes, bytes]]:
        headers = [*_SAFE_HEADERS, (b"x-request-id", self.request_id.encode())]
        if self._body_left or self.closing:
            headers.append((b"connection", b"close"))
        return headers

    async def _linger(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._linger_s):
                while self._may_linger and self._body_left:
                    await self.receive()


def _request_id(given: bytes) -> str:
    """The client's own id where it is a plain one, else a new one."""
    text = given.decode("ascii", errors="replace")
    return text if _REQUEST_ID.fullmatch(text) else uuid.uuid4().hex
