"""Limits that move while requests run: all or nothing, from the next step, and nothing is killed."""

import pytest

from headrace_engine.core.limits import Capacity, Limits, LimitsError

CAPACITY = Capacity(
    max_num_seqs=32, max_num_batched_tokens=256, max_model_len=128, num_blocks=64, block_size=4
)


def test_lowering_max_num_seqs_drains_down_and_kills_nothing(make_loop):
    loop = make_loop(max_num_seqs=32, max_num_batched_tokens=512)
    for number in range(64):
        loop.submit(f"r{number}", 2, max_tokens=5 + number)
    loop.step()
    loop.change_limits(max_num_seqs=4)
    while loop.snapshot.num_running > 4:
        running = loop.snapshot.num_running
        loop.step()
        assert loop.snapshot.num_running <= running
    loop.change_limits(max_num_seqs=32)
    plan = loop.plan()
    assert loop.snapshot.num_running == 32
    loop.commit(plan)
    loop.drain()
    assert sorted(finished.output_tokens for finished in loop.finished.values()) == list(range(5, 69))


def test_a_lower_budget_holds_from_the_next_step(make_loop):
    loop = make_loop(max_num_batched_tokens=32)
    loop.submit("book", 100)
    assert loop.step() == {"book": 32}
    loop.change_limits(max_num_batched_tokens=8)
    assert loop.step() == {"book": 8}


def test_a_change_under_way_does_not_touch_the_step_being_computed(make_loop):
    loop = make_loop(max_num_batched_tokens=32)
    loop.submit("book", 100)
    plan = loop.plan()
    loop.change_limits(max_num_batched_tokens=8)
    loop.commit(plan)
    assert (plan.num_tokens, plan.budget_tokens) == (32, 32)
    assert loop.requests["book"].computed_tokens == 32


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"max_num_seqs": 33}, "max_num_seqs"),
        ({"max_num_batched_tokens": 257}, "max_num_batched_tokens"),
        ({"max_num_queued_reqs": -1}, "max_num_queued_reqs"),
        ({"max_num_seqs": 1.5}, "max_num_seqs"),
        ({"max_num_seqs": True}, "max_num_seqs"),
        ({"max_model_len": 1}, "max_model_len"),
        ({"max_num_batched_tokens": 8, "max_num_seqs": 0}, "max_num_seqs"),
    ],
)
def test_a_bad_change_names_the_limit_and_changes_nothing(changes, name):
    limits = Limits.of(CAPACITY)
    with pytest.raises(LimitsError) as error:
        limits.changed(changes, CAPACITY)
    assert error.value.name == name
    assert limits == Limits.of(CAPACITY)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("max_num_seqs", "takes 1 to 32, the capacity that this engine started with"),
        ("max_num_queued_reqs", "takes 0 to 2147483647"),
    ],
)
def test_a_bound_is_called_the_capacity_only_where_it_is(name, message):
    with pytest.raises(LimitsError) as error:
        Limits.of(CAPACITY).changed({name: 2**40}, CAPACITY)
    assert str(error.value) == f"{name}: {message}"


def test_limits_beyond_the_capacity_are_refused(make_loop):
    loop = make_loop(max_num_seqs=8)
    with pytest.raises(LimitsError):
        loop.scheduler.set_limits(Limits(max_num_seqs=9, max_num_batched_tokens=64))
    assert loop.scheduler.limits.max_num_seqs == 8
