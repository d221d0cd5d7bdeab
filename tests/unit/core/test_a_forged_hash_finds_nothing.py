"""Blocks are found by SHA-256 and by their tokens: who could make two texts collide would still find nothing.

Weak hashes of blocks let one user's prompt be answered from another's KV elsewhere.
"""

import pytest

from headrace_engine.core import prefix


class Colliding:
    """A digest that is the same for everything."""

    def __init__(self, _data: bytes) -> None:
        pass

    def digest(self) -> bytes:
        return bytes(32)


@pytest.fixture
def broken_hash(monkeypatch) -> None:
    monkeypatch.setattr(prefix, "sha256", Colliding)


@pytest.mark.usefixtures("broken_hash")
def test_a_collision_is_a_miss(make_loop) -> None:
    loop = make_loop(block_size=4)
    loop.submit("victim", [1, 2, 3, 4, 5, 6, 7, 8, 9])
    loop.drain()
    loop.submit("forger", [8, 7, 6, 5, 4, 3, 2, 1, 9])
    loop.step()
    assert loop.requests["forger"].cached_tokens == 0


def test_digests_are_of_256_bits_and_follow_what_stands_before(make_loop) -> None:
    loop = make_loop(block_size=4)
    loop.submit("a", [1, 1, 1, 1, 2, 2, 2, 2, 3])
    loop.submit("b", [9, 9, 9, 9, 2, 2, 2, 2, 3])
    loop.drain()
    first, second = (loop.requests[name].block_digests for name in "ab")
    assert {len(digest) for digest in (*first, *second)} == {32}
    assert not set(first) & set(second)
