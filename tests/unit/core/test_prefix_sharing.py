"""Prefix sharing: what was computed once is found by whoever may find it, and by nobody before it was
computed.
"""

SYSTEM_PROMPT = list(range(100, 108))


def test_a_second_request_computes_only_what_differs(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("a", [*SYSTEM_PROMPT, 1])
    loop.drain()
    loop.submit("b", [*SYSTEM_PROMPT, 2])
    assert loop.step() == {"b": 1}
    assert loop.requests["b"].cached_tokens == 8
    loop.drain()
    assert loop.finished["b"].cached_tokens == 8
    assert loop.snapshot.prefix_hit_tokens_total == 8
    assert loop.snapshot.prefix_query_tokens_total == 18


def test_running_requests_share_blocks_without_copies(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("a", [*SYSTEM_PROMPT, 1])
    loop.step()
    loop.submit("b", [*SYSTEM_PROMPT, 2])
    loop.step()
    assert loop.requests["a"].block_table[:2] == loop.requests["b"].block_table[:2]
    assert loop.requests["a"].block_table[2:] != loop.requests["b"].block_table[2:]
    assert loop.snapshot.referenced_blocks == 4


def test_the_last_known_token_is_computed_even_if_all_are_cached(make_loop):
    loop = make_loop(block_size=4)
    for request_id in "ab":
        loop.submit(request_id, SYSTEM_PROMPT)
        loop.drain()
    assert loop.requests["b"].cached_tokens == 4
    assert loop.finished["b"].output_tokens == 8


def test_output_is_shared_too_so_a_conversation_goes_on_where_it_ended(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("turn-1", SYSTEM_PROMPT, max_tokens=8)
    loop.drain()
    loop.submit("turn-2", [*SYSTEM_PROMPT, *[7] * 8, 5])
    loop.step()
    assert loop.requests["turn-2"].cached_tokens == 12


def test_requests_with_other_salts_share_nothing(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("a", SYSTEM_PROMPT, block_salt=b"tenant a")
    loop.drain()
    loop.submit("b", SYSTEM_PROMPT, block_salt=b"tenant b")
    loop.submit("c", SYSTEM_PROMPT, block_salt=b"tenant a")
    loop.step()
    assert loop.requests["b"].cached_tokens == 0
    assert loop.requests["c"].cached_tokens == 4


def test_equal_tokens_after_another_beginning_are_not_found(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("a", [1, 1, 1, 1, *SYSTEM_PROMPT])
    loop.drain()
    loop.submit("b", [2, 2, 2, 2, *SYSTEM_PROMPT])
    loop.step()
    assert loop.requests["b"].cached_tokens == 0


def test_blocks_are_found_only_after_they_were_computed(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("a", [*SYSTEM_PROMPT, 1])
    loop.submit("b", [*SYSTEM_PROMPT, 2])
    assert loop.step() == {"a": 9, "b": 9}


def test_a_failed_step_leaves_nothing_to_find(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("a", [*SYSTEM_PROMPT, 1])
    loop.scheduler.fail(loop.plan(), "out of memory")
    loop.submit("b", [*SYSTEM_PROMPT, 2])
    assert loop.step() == {"b": 9}


def test_a_cached_block_that_is_needed_itself_is_not_counted_as_room(make_loop):
    loop = make_loop(block_size=4, num_blocks=3)
    loop.submit("a", [*SYSTEM_PROMPT, 1], max_tokens=1)
    loop.drain()
    loop.submit("holder", 4, max_tokens=1)
    loop.submit("b", [*SYSTEM_PROMPT, 1, 2], max_tokens=1)
    loop.step()
    loop.drain()
    assert loop.finished["b"].output_tokens == 1


def test_without_prefix_caching_nothing_is_found(make_loop):
    loop = make_loop(block_size=4, enable_prefix_caching=False)
    for request_id in "ab":
        loop.submit(request_id, [*SYSTEM_PROMPT, 1])
        loop.drain()
    assert loop.requests["b"].cached_tokens == 0
    assert loop.snapshot.cached_blocks == 0


def test_a_request_that_finds_nothing_is_not_starved_by_those_that_find_much(make_loop):
    loop = make_loop(max_num_seqs=1)
    shared = list(range(1, 33))
    loop.submit("first", shared, max_tokens=1)
    loop.step()
    loop.submit("cold", 32, max_tokens=1)
    for number in range(20):
        loop.submit(f"warm{number}", shared, max_tokens=1)
    loop.step()
    assert "cold" in loop.finished
