"""Leases: the blocks of ended requests, pinned for a time so that another engine can fetch what is in them.

Every lease has an end, whatever becomes of who was to fetch: a dead peer's blocks come back by themselves.
"""

import heapq
from collections import Counter
from collections.abc import Sequence

from headrace_engine.core.blocks import BlockPool


class Leases:
    """Who has leased which blocks of a pool until when."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._blocks: dict[str, Sequence[int]] = {}
        self._until_s: dict[str, float] = {}
        self._ends: list[tuple[float, str]] = []
        self._leased: Counter[int] = Counter()

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._blocks

    @property
    def num_leased(self) -> int:
        """Blocks that nothing but leases hold."""
        return sum(1 for block, count in self._leased.items() if self._pool.references(block) == count)

    def hold(self, request_id: str, blocks: Sequence[int], until_s: float) -> None:
        """Take over the blocks of a request."""
        self._blocks[request_id] = blocks
        self._leased.update(blocks)
        self.renew(request_id, until_s)

    def renew(self, request_id: str, until_s: float) -> bool:
        """Let a lease last until then; False if it has ended."""
        if request_id not in self._blocks:
            return False
        self._until_s[request_id] = until_s
        heapq.heappush(self._ends, (until_s, request_id))
        return True

    def end(self, request_id: str) -> bool:
        """Give the blocks of a lease back; False if it has ended before."""
        blocks = self._blocks.pop(request_id, None)
        if blocks is None:
            return False
        del self._until_s[request_id]
        self._leased -= Counter(blocks)
        self._pool.release(blocks)
        return True

    def expire(self, now_s: float) -> None:
        """End the leases whose time is over."""
        while self._ends and self._ends[0][0] <= now_s:
            until_s, request_id = heapq.heappop(self._ends)
            if self._until_s.get(request_id) == until_s:
                self.end(request_id)
