"""Seeds of requests that bring none.

The nth request since the start draws from (engine seed, n). So with `--seed` the same requests in the same
order, after a start, are answered alike, however they are batched; without it every engine draws anew.
"""

import secrets
import struct
from hashlib import blake2b
from itertools import count

_PACK = struct.Struct("<Q")
_SIGNED = struct.Struct("<q")


class Seeds:
    """Of one engine."""

    def __init__(self, engine_seed: int | None) -> None:
        seed = secrets.randbits(64) if engine_seed is None else engine_seed % 2**64
        self._key = _PACK.pack(seed)
        self._numbers = count()

    def next(self) -> int:
        """A seed for the next request."""
        number = _PACK.pack(next(self._numbers))
        digest = blake2b(number, key=self._key, digest_size=8, person=b"headrace-seeds").digest()
        return int(_SIGNED.unpack(digest)[0])


def nth_of(seed: int, index: int) -> int:
    """The seed of a choice: the request's own for the first, one more for each that follows, as in vLLM."""
    return (seed + index + 2**63) % 2**64 - 2**63
