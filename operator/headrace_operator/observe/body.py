"""Reads a reply of unknown size up to a bound, and not a byte of memory more."""

import aiohttp


class BodyTooLargeError(Exception):
    """More was sent, or announced, than is taken."""


async def read_bounded(response: aiohttp.ClientResponse, *, max_bytes: int) -> bytes:
    """The whole body. Raises `BodyTooLargeError`."""
    if (response.content_length or 0) > max_bytes:
        raise BodyTooLargeError(f"more than {max_bytes} bytes")
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > max_bytes:
            raise BodyTooLargeError(f"more than {max_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
