"""Drafts: guesses checked with tokens that nobody else wanted; wrong ones leave no trace."""

from headrace_engine.core.plan import Tokens
from headrace_engine.core.request import FinishReason


class Guess:
    """Guesses the same ids every time."""

    def __init__(self, *token_ids: int) -> None:
        self.token_ids = token_ids

    def draft(self, request, most_tokens):
        return self.token_ids[:most_tokens]


def decoding(make_loop, drafter, **values):
    loop = make_loop(drafter=drafter, **values)
    loop.submit("a", 4, max_tokens=20)
    loop.step()
    return loop


def test_a_row_carries_its_guesses_and_samples_after_each(make_loop):
    loop = decoding(make_loop, Guess(8, 9))
    plan = loop.plan()
    assert [(list(row.token_ids), row.sampled_rows) for row in plan.rows] == [([7, 8, 9], 3)]
    assert (plan.num_decode_tokens, plan.num_draft_tokens) == (3, 2)


def test_only_accepted_guesses_count_as_computed(make_loop):
    loop = decoding(make_loop, Guess(8, 9))
    loop.commit(loop.plan(), {"a": [8, 5]})
    request = loop.requests["a"]
    assert request.output_token_ids == [7, 8, 5]
    assert (request.computed_tokens, request.pending_tokens) == (6, 1)
    assert loop.plan().rows[0].start == 6


def test_a_stop_among_the_guesses_drops_what_follows(make_loop):
    loop = make_loop(drafter=Guess(8, 2, 9))
    loop.submit("a", 4, max_tokens=20, stop_token_ids=frozenset([2]))
    loop.step()
    loop.commit(loop.plan(), {"a": [8, 2, 9, 9]})
    assert loop.requests["a"].output_token_ids == [7, 8, 2]
    assert [list(event.token_ids) for event in loop.events if isinstance(event, Tokens)] == [[7], [8]]


def test_an_abort_while_guesses_are_checked_frees_their_blocks_with_the_step(make_loop):
    loop = decoding(make_loop, Guess(8, 8, 8, 8), block_size=2)
    plan = loop.plan()
    assert plan.rows[0].sampled_rows == 5
    assert loop.scheduler.abort("a").reason is FinishReason.ABORT
    assert loop.commit(plan) == []
    assert (loop.snapshot.in_flight, loop.snapshot.referenced_blocks) == (0, 0)


def test_guesses_never_go_beyond_the_length_of_the_request(make_loop):
    loop = make_loop(drafter=Guess(8, 8, 8, 8))
    loop.submit("a", 4, max_tokens=3)
    loop.step()
    assert loop.step() == {"a": 2}


def test_guesses_take_only_the_budget_that_is_left_over(make_loop):
    loop = decoding(make_loop, Guess(8, 9, 10), max_num_batched_tokens=8)
    loop.submit("book", 6)
    assert loop.step() == {"a": 2, "book": 6}


def test_guesses_preempt_nobody(make_loop):
    loop = make_loop(drafter=Guess(8, 8, 8, 8), num_blocks=4, block_size=2)
    for request_id in "ab":
        loop.submit(request_id, 2, max_tokens=3)
    loop.drain()
    assert loop.snapshot.preemptions_total == 0


def test_rejected_guesses_are_not_found_in_the_cache(make_loop):
    loop = decoding(make_loop, Guess(8, 9, 10, 11), block_size=4)
    loop.commit(loop.plan(), {"a": [5]})
    loop.scheduler.abort("a")
    loop.submit("b", [*loop.requests["a"].prompt_token_ids, 7, 8, 9, 10, 11, 12])
    loop.step()
    assert loop.requests["b"].cached_tokens == 4


def test_guesses_take_no_block_that_another_sequence_counts_on(make_loop):
    loop = make_loop(drafter=Guess(8, 8, 8, 8), num_blocks=5, block_size=2)
    for request_id in "ab":
        loop.submit(request_id, 2, max_tokens=6)
    loop.steps(2)
    assert loop.snapshot.free_blocks == 1
    assert loop.requests["a"].preemptions == loop.requests["b"].preemptions == 0
