"""Random numbers that depend on nothing but their key.

One uniform per sampled token, from a keyed hash of (seed, position): the same request draws the same numbers
whatever else is in its batch, however its prompt was chunked and however often it was preempted.
"""

import struct
from hashlib import blake2b

_PACK = struct.Struct("<q")


def seed_key(seed: int) -> bytes:
    """The key of a request's seed, any 64-bit integer."""
    return blake2b(_PACK.pack(seed), digest_size=16, person=b"headrace-seed").digest()


def uniform(key: bytes, position: int) -> float:
    """A number in [0, 1) with 53 random bits for the token at `position` of the sequence."""
    digest = blake2b(_PACK.pack(position), key=key, digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
