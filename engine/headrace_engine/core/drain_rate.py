"""How fast the queue drains, measured: what an honest `Retry-After` is made of."""

import math

MOST_S = 1.0
"""Of a gap between two steps: a tenth of what is remembered."""


class DrainRate:
    """Requests and prompt tokens that leave a backlogged queue per second, with exponential forgetting.

    Only time during which somebody waited counts: an idle engine's low traffic says nothing about its speed.
    No gap weighs more than `MOST_S`: in one that is longer the process may have been stopped.
    """

    def __init__(self, memory_s: float = 10.0) -> None:
        self._memory_s = memory_s
        self._elapsed_s = 0.0
        self._requests = 0.0
        self._tokens = 0.0

    def observe(self, elapsed_s: float, requests: int, tokens: int) -> None:
        """`requests` with `tokens` prompt tokens left the queue during `elapsed_s` of backlog."""
        weight = min(1.0, MOST_S / elapsed_s) if elapsed_s > 0 else 1.0
        kept = math.exp(-weight * elapsed_s / self._memory_s)
        self._elapsed_s = self._elapsed_s * kept + weight * elapsed_s
        self._requests = self._requests * kept + weight * requests
        self._tokens = self._tokens * kept + weight * tokens

    def drain_time_s(self, requests: int, tokens: int) -> float | None:
        """How long a queue of this size drains, by the slower of both; None where nothing was measured."""
        if self._elapsed_s <= 0.0:
            return None
        if self._requests <= 0.0 or self._tokens <= 0.0:
            return math.inf
        return self._elapsed_s * max(requests / self._requests, tokens / self._tokens)
