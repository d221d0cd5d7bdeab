"""Payloads on a stream: each has its length in front, four bytes, big end first."""

import struct
from collections.abc import Iterator

LENGTH = struct.Struct(">I")
MOST_BYTES = 1 << 30
"""Far beyond any payload: more than that is no frame, and nothing behind it can be read."""


class FrameError(ValueError):
    """What came is no row of frames."""


def framed(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload


class Frames:
    """Cuts what comes, in whatever pieces, into the payloads that were sent."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The payloads that `piece` completes.

        Raises:
            FrameError: a length that no payload has.
        """
        pending = self._pending
        pending += piece
        at = 0
        while len(pending) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(pending, at)
            if length > MOST_BYTES:
                raise FrameError(f"a frame of {length} bytes")
            end = at + LENGTH.size + length
            if len(pending) < end:
                break
            yield bytes(memoryview(pending)[at + LENGTH.size : end])
            at = end
        del pending[:at]
