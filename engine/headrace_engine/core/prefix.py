"""Prefix reuse: a chain of hashes names each full block by its tokens and all tokens before them.

    digest(i) = SHA-256(digest(i - 1) + token ids of block i),    digest(-1) = SHA-256(salt)

The salt keeps those who must not share (tenants, adapters) apart. A request keeps its chain, so nothing is
hashed twice. Blocks are published after they were computed: a failed step leaves nothing to find.
"""

from array import array
from hashlib import sha256

from headrace_engine.core.blocks import BlockPool, Content
from headrace_engine.core.request import Request


def block_salt(tenant: str, adapter_digest: bytes = b"") -> bytes:
    """What keeps the blocks of a tenant, and of an adapter's content, from being found by others."""
    return b"%d:%s%s" % (len(tenant.encode()), tenant.encode(), adapter_digest)


class PrefixCache:
    """Finds and publishes the blocks of requests in a pool."""

    def __init__(self, pool: BlockPool, block_size: int) -> None:
        self._pool = pool
        self._block_size = block_size

    def match(self, request: Request) -> list[int]:
        """The longest run of findable blocks that starts the request.

        It ends before what is computed in any case: the last known token, whose hidden state sampling needs,
        and every token whose successor is still to be scored.
        """
        blocks: list[int] = []
        for index in range(request.sparable_tokens // self._block_size):
            block = self._pool.find(self._content(request, index))
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, request: Request, first: int, end: int) -> None:
        """Make blocks [first, end) of the request's table findable; all their tokens are computed."""
        for index in range(first, end):
            self._pool.publish(request.block_table[index], self._content(request, index))

    def _content(self, request: Request, index: int) -> Content:
        start = index * self._block_size
        token_ids = tuple(request.tokens(start, start + self._block_size))
        chain = request.block_digests
        if index == len(chain):
            before = chain[-1] if chain else sha256(request.block_salt).digest()
            chain.append(sha256(before + array("q", token_ids).tobytes()).digest())
        return Content(chain[index], token_ids)
