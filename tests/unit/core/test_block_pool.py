"""Blocks: the least useful are used again first, what can still be found longest, and none is lost."""

from headrace_engine.core.blocks import BlockPool, Content


def content(name: str) -> Content:
    return Content(name.encode(), (1, 2))


def held(pool: BlockPool, *names: str) -> list[int]:
    blocks = pool.allocate(len(names))
    assert blocks is not None
    for block, name in zip(blocks, names, strict=True):
        pool.publish(block, content(name))
    return blocks


def test_running_out_is_a_value_and_takes_nothing():
    pool = BlockPool(3)
    assert pool.allocate(2) is not None
    assert pool.allocate(2) is None
    assert (pool.num_available, pool.num_referenced) == (1, 2)


def test_a_block_without_content_is_used_again_before_one_that_can_be_found():
    pool = BlockPool(2)
    cached, private = held(pool, "a")[0], pool.allocate(1)
    pool.release([cached])
    pool.release(private)
    assert pool.allocate(1) == private
    assert pool.find(content("a")) == cached


def test_the_tail_of_a_prefix_is_forgotten_before_its_head():
    pool = BlockPool(3)
    pool.release(held(pool, "head", "middle", "tail"))
    pool.allocate(1)
    assert pool.find(content("tail")) is None
    assert pool.find(content("middle")) is not None
    pool.allocate(1)
    assert pool.find(content("middle")) is None
    assert pool.find(content("head")) is not None


def test_finding_a_block_again_makes_it_the_most_recently_used():
    pool = BlockPool(2)
    first, second = held(pool, "first"), held(pool, "second")
    pool.release(first)
    pool.release(second)
    pool.share(first)
    pool.release(first)
    assert pool.allocate(1) == second


def test_a_forgotten_block_takes_new_content():
    pool = BlockPool(1)
    pool.release(held(pool, "old"))
    block = held(pool, "new")
    assert pool.find(content("old")) is None
    assert [pool.find(content("new"))] == block
    pool.release(block)
    assert held(pool, "old") == block
    assert [pool.find(content("old"))] == block


def test_a_shared_block_is_free_only_when_the_last_holder_lets_go():
    pool = BlockPool(1)
    block = held(pool, "a")
    pool.share(block)
    pool.release(block)
    assert pool.num_available == 0
    pool.release(block)
    assert (pool.num_cached, pool.num_free, pool.num_referenced) == (1, 0, 0)


def test_the_first_block_with_a_content_keeps_it_and_a_duplicate_stays_private():
    pool = BlockPool(2)
    first, second = held(pool, "same"), held(pool, "same")
    assert [pool.find(content("same"))] == first
    pool.release(second)
    assert (pool.num_free, pool.num_cached) == (1, 0)


def test_equal_digests_with_other_tokens_are_not_taken_for_equal_content():
    pool = BlockPool(1)
    held(pool, "a")
    assert pool.find(Content(b"a", (3, 4))) is None
