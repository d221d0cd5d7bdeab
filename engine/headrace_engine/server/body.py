"""Reads the bodies of requests within their bounds: type, size, time, and the memory of all together."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request

from headrace_engine.server.errors import ApiError, invalid, unavailable
from headrace_engine.server.json_body import parse_object
from headrace_engine.server.json_shape import BodyBounds
from headrace_engine.server.peer import peer_of


class Bodies:
    """Bodies from their first byte until what they ask for has been understood.

    Connections are many and bodies may be large: together they would take more memory than a pod has. One
    address may take half of what all may, so that it cannot keep the others out.
    """

    def __init__(self, max_bytes_together: int, timeout_s: float) -> None:
        self._max_bytes_together = max_bytes_together
        self._timeout_s = timeout_s
        self.num_bytes = 0
        """What they take now."""
        self._bytes_of = Counter[str]()
        """By address."""

    @asynccontextmanager
    async def read(self, request: Request, max_bytes: int) -> AsyncIterator[bytearray]:
        """The whole body, which nobody else has and which is not copied: it may be large.

        Raises:
            ApiError: 413 too large (by its own word, or while counting), 408 too slow, 415 encoded, 503 too
                many at once.
        """
        if request.headers.get("content-encoding", "identity") != "identity":
            raise invalid(None, "Encoded bodies are not taken. Send it as it is.", status=415)
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared[:20]) > max_bytes:
            raise _too_large(max_bytes)
        body, address = bytearray(), peer_of(request.client.host) if request.client else ""
        try:
            await self._receive(request, body, max_bytes, address)
            yield body
        finally:
            self.num_bytes -= len(body)
            self._bytes_of[address] -= len(body)
            if not self._bytes_of[address]:
                del self._bytes_of[address]

    @asynccontextmanager
    async def read_json(self, request: Request, bounds: BodyBounds) -> AsyncIterator[dict[str, Any]]:
        """The JSON object that the request sends, or `ApiError`."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise invalid(None, "The body must be JSON: send Content-Type: application/json.", status=415)
        async with self.read(request, bounds.max_bytes) as body:
            yield parse_object(body, bounds)

    def _has_room(self, num_bytes: int, address: str) -> bool:
        most = self._max_bytes_together
        return self.num_bytes + num_bytes <= most and self._bytes_of[address] + num_bytes <= most // 2

    async def _receive(self, request: Request, body: bytearray, max_bytes: int, address: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                async for piece in request.stream():
                    if len(body) + len(piece) > max_bytes:
                        raise _too_large(max_bytes)
                    if not self._has_room(len(piece), address):
                        raise unavailable("too_many_bodies", "Too many requests are being sent. Try again.")
                    body += piece
                    self.num_bytes += len(piece)
                    self._bytes_of[address] += len(piece)
        except TimeoutError:
            raise invalid(None, "The body did not arrive in time.", status=408) from None


def _too_large(max_bytes: int) -> ApiError:
    return invalid(None, f"The body is larger than {max_bytes} bytes.", status=413)
