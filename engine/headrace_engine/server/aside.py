"""Work of a size at which everybody else would wait for it, on a thread of its own; the rest at once."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

MANY = 512
"""Tokens to tell of: with twenty others each, some 30 ms."""
T = TypeVar("T")


async def aside(num_tokens: int, work: Callable[[], T]) -> T:
    """What `work` returns. Nothing that it touches is touched meanwhile."""
    return await asyncio.to_thread(work) if num_tokens > MANY else work()
