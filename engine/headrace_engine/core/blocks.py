"""Fixed blocks of KV memory: who holds each, and in what order they are used again.

A block is in exactly one of three states, so free + cached + referenced = total at every moment:

    free        nobody holds it and nothing worth finding is in it    used again first
    cached      nobody holds it, but its content can still be found   used again oldest first, then forgotten
    referenced  one or more requests hold it                          never used again while they do

Free and cached blocks stand in one line, which is the LRU: free ones enter at its head, cached ones at its
tail, and a block that is found again leaves it from anywhere in O(1). Running out is a value (`None`), not an
error.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple


class Content(NamedTuple):
    """What a computed, full block holds: its tokens, and the digest of those and all before them."""

    digest: bytes
    token_ids: tuple[int, ...]


class BlockPool:
    """`num_blocks` blocks, numbered from 0."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._references = [0] * num_blocks
        self._contents: list[Content | None] = [None] * num_blocks
        self._by_digest: dict[bytes, int] = {}
        self._line: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._num_cached = 0

    @property
    def num_available(self) -> int:
        """Blocks that `allocate` can give: free and cached."""
        return len(self._line)

    @property
    def num_cached(self) -> int:
        return self._num_cached

    @property
    def num_free(self) -> int:
        return len(self._line) - self._num_cached

    @property
    def num_referenced(self) -> int:
        return self.num_blocks - len(self._line)

    def references(self, block: int) -> int:
        """How many requests hold `block`."""
        return self._references[block]

    def allocate(self, count: int) -> list[int] | None:
        """Take `count` blocks and forget what they held; None, and nothing taken, if there are too few."""
        if count > len(self._line):
            return None
        blocks = [self._line.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._references[block] = 1
            self._forget(block)
        return blocks

    def share(self, blocks: Sequence[int]) -> None:
        """Hold blocks that `find` gave, whether or not others hold them too."""
        for block in blocks:
            if not self._references[block]:
                del self._line[block]
                self._num_cached -= 1
            self._references[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Let go of the blocks of one request, given in the order of its tokens.

        The last goes first, so that the head of a prefix, which more requests share, outlives its tail.
        """
        for block in reversed(blocks):
            assert self._references[block] > 0, f"block {block} was released twice"
            self._references[block] -= 1
            if self._references[block]:
                continue
            self._line[block] = None
            if self._contents[block] is None:
                self._line.move_to_end(block, last=False)
            else:
                self._num_cached += 1

    def publish(self, block: int, content: Content) -> None:
        """Make a held block findable. The first with a content keeps it; a later duplicate stays private."""
        assert self._references[block] > 0, f"block {block} is held by nobody"
        if self._contents[block] is None and content.digest not in self._by_digest:
            self._contents[block] = content
            self._by_digest[content.digest] = block

    def find(self, content: Content) -> int | None:
        """The block that holds `content`. Its tokens are compared: equal digests alone are no proof."""
        block = self._by_digest.get(content.digest)
        return block if block is not None and self._contents[block] == content else None

    def _forget(self, block: int) -> None:
        content = self._contents[block]
        if content is not None:
            self._contents[block] = None
            self._num_cached -= 1
            del self._by_digest[content.digest]
