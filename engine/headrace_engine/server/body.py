"""Reads a request's JSON body within its bounds: type, size, time."""

import asyncio
from typing import Any

from starlette.requests import Request

from headrace_engine.server.errors import invalid
from headrace_engine.server.json_body import BodyBounds, parse_object


async def read_bytes(request: Request, max_bytes: int, timeout_s: float) -> bytes:
    """The whole body.

    Raises:
        ApiError: 413 too large (by its own word, or while counting), 408 too slow, 415 encoded.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise invalid(None, "Encoded bodies are not taken. Send it as it is.", status=415)
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared[:20]) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for piece in request.stream():
                body += piece
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise invalid(None, "The body did not arrive in time.", status=408) from None
    return bytes(body)


async def read_json(request: Request, bounds: BodyBounds, timeout_s: float) -> dict[str, Any]:
    """The JSON object that the request sends, or `ApiError`."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise invalid(None, "The body must be JSON: send Content-Type: application/json.", status=415)
    return parse_object(await read_bytes(request, bounds.max_bytes, timeout_s), bounds)


def _too_large(max_bytes: int) -> Exception:
    return invalid(None, f"The body is larger than {max_bytes} bytes.", status=413)
