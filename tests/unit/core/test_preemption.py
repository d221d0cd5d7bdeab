"""Preemption: when blocks run out, whoever loses least gives way, comes back first, and not too often."""

import pytest

from headrace_engine.core.plan import Hold, Preempted, Tokens
from headrace_engine.core.preemption import MAX_PREEMPTIONS, victim_for_blocks
from headrace_engine.core.request import Request


def run_short_of_blocks(make_loop):
    """Two sequences grow in a pool that holds only one of them to its end."""
    loop = make_loop(num_blocks=6, block_size=2, max_num_batched_tokens=16)
    loop.submit("old", 4, max_tokens=8)
    loop.steps(2)
    loop.submit("young", 2, max_tokens=9)
    while not loop.snapshot.preemptions_total:
        loop.step()
    return loop


def test_the_request_that_loses_the_least_work_gives_way(make_loop):
    loop = run_short_of_blocks(make_loop)
    assert [event.request_id for event in loop.events if isinstance(event, Preempted)] == ["young"]
    assert loop.requests["old"].preemptions == 0


def test_a_preempted_request_resumes_before_newcomers_and_loses_no_token(make_loop):
    loop = run_short_of_blocks(make_loop)
    loop.submit("newcomer", 1, max_tokens=1)
    while "newcomer" not in (computed := loop.step()):
        pass
    assert list(computed) == ["young", "newcomer"]
    loop.drain()
    young = loop.requests["young"]
    told = [event for event in loop.events if isinstance(event, Tokens) and event.request_id == "young"]
    assert [token for event in told for token in event.token_ids] == young.output_token_ids == [7] * 9


def test_several_preempted_requests_resume_in_the_order_of_their_admission(make_loop):
    loop = make_loop(num_blocks=4, block_size=1)
    for request_id in "abc":
        loop.submit(request_id, 1, max_tokens=4)
    loop.drain()
    preempted = [event.request_id for event in loop.events if isinstance(event, Preempted)]
    assert preempted
    assert list(loop.finished) == ["a", "b", "c"]


def test_nothing_is_admitted_in_a_step_that_preempted(make_loop):
    loop = make_loop(num_blocks=6, block_size=2)
    loop.submit("old", 4, max_tokens=8)
    loop.steps(2)
    loop.submit("young", 2, max_tokens=9)
    loop.step()
    loop.submit("tiny", 1, max_tokens=1)
    while not (plan := loop.plan()).preempted:
        loop.commit(plan)
    assert plan.preempted == ("young",)
    assert plan.hold is Hold.PREEMPTION
    assert [row.request_id for row in plan.rows] == ["old"]


def test_an_admission_leaves_a_block_for_every_sequence_that_can_still_grow(make_loop):
    loop = make_loop(num_blocks=5, block_size=4)
    loop.submit("growing", 8, max_tokens=8)
    loop.step()
    loop.submit("newcomer", 8, max_tokens=1)
    assert loop.step() == {"growing": 1}
    assert loop.snapshot.free_blocks == 2
    loop.drain()
    assert loop.snapshot.preemptions_total == 0


def test_a_sequence_that_cannot_grow_any_more_holds_nobody_back(make_loop):
    loop = make_loop(num_blocks=4, block_size=4)
    loop.submit("short", 6, max_tokens=2)
    loop.step()
    loop.submit("newcomer", 8, max_tokens=1)
    assert loop.step() == {"short": 1, "newcomer": 8}


@pytest.mark.parametrize("num_blocks", [2, 3, 4, 7])
def test_a_full_cache_never_stops_the_engine(make_loop, num_blocks):
    """A pool far too small for its load serves all of it, one after the other if need be."""
    loop = make_loop(num_blocks=num_blocks, block_size=2, max_num_seqs=8)
    for number in range(12):
        loop.submit(f"r{number}", 1 + number % 3, max_tokens=1 + number % 4)
    loop.drain()
    assert len(loop.finished) == len(loop.requests)


def test_nobody_is_preempted_more_often_than_the_bound(make_loop):
    loop = make_loop(num_blocks=12, block_size=1, max_num_seqs=8)
    for number in range(24):
        loop.submit(f"r{number}", 1, max_tokens=4 + number % 7)
    loop.drain()
    counts = [request.preemptions for request in loop.requests.values()]
    assert max(counts) == MAX_PREEMPTIONS


def test_a_request_preempted_that_often_is_never_chosen_again():
    pinned = Request("pinned", (1,), 1, 0.0, preemptions=MAX_PREEMPTIONS, computed_tokens=1)
    young = Request("young", (1,), 1, 0.0, computed_tokens=5)
    younger = Request("younger", (1,), 1, 0.0, computed_tokens=5)
    assert victim_for_blocks([pinned, young, younger], young, lambda *_: False) is younger


def test_a_resumed_request_counts_its_tokens_after_its_blocks_are_known(make_loop):
    """A resumption that finds its own blocks in the cache computes only the rest."""
    loop = run_short_of_blocks(make_loop)
    young = loop.requests["young"]
    assert (young.computed_tokens, young.block_table) == (0, [])
    loop.scheduler.abort("old")
    total = young.total_tokens
    found = total - loop.step()["young"]
    assert found % 2 == 0
    assert young.computed_tokens == total
    assert young.cached_tokens == 0


def test_a_preemption_is_told_with_what_it_cost(make_loop):
    loop = run_short_of_blocks(make_loop)
    (preempted,) = [event for event in loop.events if isinstance(event, Preempted)]
    assert preempted.lost_tokens > 0
    assert loop.snapshot.preemptions_total == 1
