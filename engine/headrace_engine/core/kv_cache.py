"""The KV blocks of requests: what they start with, how they grow, and the one way to let go of them.

Position p of a request has its KV in slot `p % block_size` of block `block_table[p // block_size]`:

    block_table    [ 7 ][ 2 ][ 9 ]          block size 4, 6 tokens computed, 9 known
    positions      0..3  4..7  8..11
    computed       ####  ##..  ....         block 7 is full: published, findable by others

A request is admitted with blocks for all its known tokens, so that a prefill never runs dry half-way, and
only if a block is left over for every running request that can still grow, so that an admission does not
cause a preemption.
"""

from headrace_engine.core.blocks import BlockPool
from headrace_engine.core.prefix import PrefixCache
from headrace_engine.core.request import Request


class KVCache:
    """One pool, and the prefix cache on it."""

    def __init__(self, num_blocks: int, block_size: int, *, enable_prefix_caching: bool) -> None:
        self.pool = BlockPool(num_blocks)
        self.block_size = block_size
        self._prefixes = PrefixCache(self.pool, block_size) if enable_prefix_caching else None
        self._num_growing = 0
        """Requests with blocks that may need one more."""

    def missing(self, request: Request, *, whole_length: bool = False) -> int:
        """How many more blocks must be free before `admit` finds room."""
        _, _, missing = self._offer(request, whole_length=whole_length)
        return missing

    def admit(self, request: Request, *, whole_length: bool = False) -> bool:
        """Give a request its first blocks and what the cache has of it; False, and no change, if too few.

        With `whole_length` it gets blocks for all tokens that it can ever have and will never ask for one
        again.
        """
        hits, count, missing = self._offer(request, whole_length=whole_length)
        if missing:
            return False
        self.pool.share(hits)
        fresh = self.pool.allocate(count)
        assert fresh is not None
        request.block_table = hits + fresh
        request.computed_tokens = len(hits) * self.block_size
        self._num_growing += self._can_grow(request)
        return True

    def grow(self, request: Request) -> bool:
        """Add one block to a request's table; False, and nothing changed, if there is none."""
        fresh = self.pool.allocate(1)
        if fresh is None:
            return False
        request.block_table += fresh
        self._num_growing -= not self._can_grow(request)
        return True

    def advance(self, request: Request, num_tokens: int) -> None:
        """Count `num_tokens` more as computed and publish the blocks that they filled."""
        end = request.computed_tokens = request.computed_tokens + num_tokens
        if end % self.block_size < num_tokens and self._prefixes:
            first = (end - num_tokens) // self.block_size
            self._prefixes.publish(request, first, end // self.block_size)

    def spare_room(self, request: Request, most_tokens: int) -> int:
        """Slots after a decode's pending token, up to `most_tokens`, on blocks that nobody else counts on."""
        slots = len(request.block_table) * self.block_size
        needed = request.computed_tokens + 1 + most_tokens
        while slots < needed and self.pool.num_available > self._num_growing and self.grow(request):
            slots += self.block_size
        return min(slots, needed) - request.computed_tokens - 1

    def surrender(self, request: Request) -> list[int]:
        """Take a request's blocks from it without releasing them; who is given them releases them."""
        self._num_growing -= self._can_grow(request)
        blocks, request.block_table = request.block_table, []
        request.computed_tokens = 0
        return blocks

    def release(self, request: Request) -> None:
        """Let go of all that a request holds; what it published can be found until its blocks are needed."""
        self.pool.release(self.surrender(request))

    def _offer(self, request: Request, *, whole_length: bool) -> tuple[list[int], int, int]:
        """The blocks found for a request, how many more it needs, and how many of those are missing."""
        tokens = request.most_tokens if whole_length else request.total_tokens
        hits = self._prefixes.match(request) if self._prefixes else []
        idle_hits = sum(1 for block in hits if not self.pool.references(block))
        count = self._blocks(tokens) - len(hits)
        missing = count + idle_hits + self._num_growing - self.pool.num_available
        return hits, count, max(0, missing)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _can_grow(self, request: Request) -> bool:
        return 0 < len(request.block_table) < self._blocks(request.most_tokens)
