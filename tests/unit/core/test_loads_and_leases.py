"""KV that comes from elsewhere, and KV that stays for elsewhere: both have an end, whoever fails."""

import pytest

from headrace_engine.core.plan import Preempted
from headrace_engine.core.request import FinishReason, Status


def loading(make_loop, **values):
    loop = make_loop(block_size=4, **values)
    loop.submit("a", 12, remote_tokens=8, load_timeout_s=1.0)
    plan = loop.plan()
    loop.commit(plan)
    return loop, plan


def test_a_request_that_loads_holds_its_blocks_and_computes_nothing(make_loop):
    loop, plan = loading(make_loop)
    assert plan.rows == ()
    assert [(load.request_id, load.start, load.end) for load in plan.loads] == [("a", 0, 8)]
    assert list(plan.loads[0].block_table) == loop.requests["a"].block_table
    assert loop.snapshot.referenced_blocks == 3
    assert loop.step() == {}


def test_what_was_brought_is_not_computed_and_can_be_found(make_loop):
    loop, _ = loading(make_loop)
    assert loop.scheduler.loaded("a", 8)
    loop.submit("b", [*loop.requests["a"].prompt_token_ids[:8], 1])
    assert loop.step() == {"a": 4, "b": 1}


def test_a_part_of_it_is_a_shorter_prefix(make_loop):
    loop, _ = loading(make_loop)
    loop.scheduler.loaded("a", 5)
    assert loop.step() == {"a": 7}


def test_the_last_known_token_is_computed_whatever_was_brought(make_loop):
    loop = make_loop()
    loop.submit("a", 12, remote_tokens=12)
    assert loop.plan().loads[0].end == 11


def test_a_failed_load_is_an_ordinary_prefill(make_loop):
    loop, _ = loading(make_loop)
    loop.scheduler.loaded("a", 0)
    assert loop.step() == {"a": 12}


def test_a_load_that_takes_too_long_is_given_up_and_comes_too_late(make_loop):
    loop, _ = loading(make_loop)
    loop.now_s = 1.1
    assert loop.step() == {"a": 12}
    assert not loop.scheduler.loaded("a", 8)
    assert loop.requests["a"].computed_tokens == 12


def test_a_load_for_a_request_that_is_gone_is_void(make_loop):
    loop, _ = loading(make_loop)
    assert loop.scheduler.abort("a").reason is FinishReason.ABORT
    assert not loop.scheduler.loaded("a", 8)
    assert loop.snapshot.referenced_blocks == 0


def test_loads_hold_no_more_than_half_the_blocks(make_loop):
    loop, _ = loading(make_loop, num_blocks=9)
    loop.submit("b", 12, remote_tokens=8)
    assert loop.step() == {"b": 12}


def test_a_decode_that_needs_blocks_takes_them_from_a_load(make_loop):
    loop = make_loop(num_blocks=7, block_size=2)
    loop.submit("decoding", 4, max_tokens=9)
    loop.steps(2)
    loop.submit("a", 5, remote_tokens=4)
    loop.step()
    assert loop.requests["a"].status is Status.LOADING
    while loop.requests["a"].status is not Status.PREEMPTED:
        loop.step()
    assert [event.request_id for event in loop.events if isinstance(event, Preempted)] == ["a"]
    assert not loop.scheduler.loaded("a", 4)
    loop.drain()
    assert loop.finished["a"].reason is FinishReason.LENGTH


def leased(make_loop):
    loop = make_loop(block_size=4, num_blocks=4)
    loop.submit("a", 8, max_tokens=1, lease_s=1.0)
    loop.step()
    return loop


def test_leased_blocks_outlive_their_request_and_are_given_to_nobody(make_loop):
    loop = leased(make_loop)
    snapshot = loop.snapshot
    assert (snapshot.leased_blocks, snapshot.referenced_blocks, snapshot.in_flight) == (2, 0, 0)
    loop.submit("b", 12, max_tokens=1)
    assert loop.step() == {}


def test_a_lease_ends_by_itself(make_loop):
    loop = leased(make_loop)
    loop.submit("b", 12, max_tokens=1)
    loop.now_s = 1.1
    assert loop.step() == {"b": 12}
    assert not loop.scheduler.renew_lease("a", 5.0)


def test_a_renewed_lease_lasts_longer_and_an_ended_one_is_over(make_loop):
    loop = leased(make_loop)
    assert loop.scheduler.renew_lease("a", 5.0)
    loop.now_s = 3.0
    loop.step()
    assert loop.snapshot.leased_blocks == 2
    assert loop.scheduler.end_lease("a")
    assert not loop.scheduler.end_lease("a")
    assert (loop.snapshot.leased_blocks, loop.snapshot.cached_blocks) == (0, 2)


def test_a_leased_block_that_a_request_shares_counts_once(make_loop):
    loop = leased(make_loop)
    loop.submit("b", [*loop.requests["a"].prompt_token_ids, 1], max_tokens=5)
    loop.step()
    snapshot = loop.snapshot
    assert (snapshot.referenced_blocks, snapshot.leased_blocks, snapshot.free_blocks) == (3, 0, 1)


@pytest.mark.parametrize("ending", ["abort", "fail"])
def test_a_request_that_did_not_end_well_leases_nothing(make_loop, ending):
    loop = make_loop()
    loop.submit("a", 8, lease_s=1.0)
    plan = loop.plan()
    if ending == "fail":
        loop.scheduler.fail(plan, "device lost")
    else:
        loop.commit(plan)
        loop.scheduler.abort("a")
    assert loop.snapshot.leased_blocks == 0


def test_a_request_loads_once_and_computes_when_it_resumes(make_loop):
    loop, _ = loading(make_loop, enable_prefix_caching=False)
    loop.scheduler._life.preempt(loop.requests["a"], loop.now_s)
    assert loop.step() == {"a": 12}


def test_more_than_could_be_brought_is_not_believed(make_loop):
    loop, _ = loading(make_loop)
    loop.scheduler.loaded("a", 1000)
    assert loop.step() == {"a": 1}
