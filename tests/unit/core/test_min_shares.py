"""`min_share`: what a tenant gets whoever goes before it, and what it does not get beyond that."""

import pytest

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import LimitsError
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.tenants import Tenants


def make_shared(make_loop, share, *, policy=PolicyName.PRIORITY, **values):
    tenants = Tenants(Contract({"batch": Terms(priority=10, min_share=share)}))
    ordered = policy_of(policy, tenants, PrefillRate(), age_s=1e6)
    return make_loop(policy=ordered, tenants=tenants, **values)


def submit_many(loop, count, *, output=8):
    for number in range(count):
        loop.submit(f"batch{number}", 4, max_tokens=output, tenant="batch", priority=10)
        loop.submit(f"urgent{number}", 4, max_tokens=output, tenant="urgent")


def part_of_batch(loop):
    return sum(name.startswith("batch") for name in loop.finished) / len(loop.finished)


@pytest.mark.parametrize("policy", [PolicyName.PRIORITY, PolicyName.SLO])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_worst_class_gets_its_share_and_no_more_while_a_better_one_waits(make_loop, policy, share):
    loop = make_shared(make_loop, share, policy=policy, max_num_seqs=4)
    submit_many(loop, 200)
    while len(loop.finished) < 150:
        loop.step()
    assert part_of_batch(loop) == pytest.approx(share, abs=0.04)


def test_a_request_that_is_due_goes_before_a_better_class_that_came_before_it(make_loop):
    loop = make_shared(make_loop, 0.25, max_num_seqs=1)
    for number in range(4):
        loop.submit(f"urgent{number}", 4, max_tokens=4, tenant="urgent")
    loop.submit("batch", 4, max_tokens=4, tenant="batch", priority=10)
    loop.drain()
    assert list(loop.finished)[:2] == ["urgent0", "batch"]


def test_what_was_admitted_by_its_share_gives_way_to_no_better_class(make_loop):
    loop = make_shared(make_loop, 0.5, max_num_seqs=1)
    loop.submit("first", 4, max_tokens=2, tenant="urgent")
    loop.submit("batch", 4, max_tokens=40, tenant="batch", priority=10)
    loop.steps(4)
    assert loop.requests["batch"].by_share
    loop.submit("urgent", 4, max_tokens=2, tenant="urgent")
    loop.drain()
    assert loop.requests["batch"].preemptions == 0
    assert list(loop.finished) == ["first", "batch", "urgent"]


def test_what_it_got_beyond_its_share_gives_way_as_ever(make_loop):
    loop = make_shared(make_loop, 0.01, max_num_seqs=1)
    loop.submit("batch", 4, max_tokens=40, tenant="batch", priority=10)
    loop.steps(4)
    loop.submit("urgent", 4, max_tokens=2, tenant="urgent")
    loop.drain()
    assert list(loop.finished) == ["urgent", "batch"]


def test_who_is_owed_more_than_a_longest_sequence_takes_a_slot(make_loop):
    loop = make_shared(make_loop, 0.5, max_num_seqs=8, max_model_len=64)
    for number in range(8):
        loop.submit(f"urgent{number}", 4, max_tokens=60, tenant="urgent")
    loop.step()
    loop.submit("batch", 4, max_tokens=2, tenant="batch", priority=10)
    loop.steps(10)
    assert loop.requests["batch"].first_scheduled_s is None
    loop.steps(20)
    assert loop.requests["batch"].first_scheduled_s is not None
    assert loop.snapshot.preemptions_total == 1


def test_who_does_not_wait_is_owed_nothing_and_what_runs_of_it_gives_way_for_blocks(make_loop):
    loop = make_shared(make_loop, 0.5, max_num_seqs=8, max_model_len=64, num_blocks=84)
    loop.submit("batch", 4, max_tokens=60, tenant="batch", priority=10)
    loop.step()
    for number in range(7):
        loop.submit(f"urgent{number}", 4, max_tokens=60, tenant="urgent")
    while not loop.snapshot.preemptions_total:
        loop.step()
    assert [name for name, request in loop.requests.items() if request.preemptions] == ["batch"]


def test_nothing_is_saved_up_while_nobody_of_it_waits(make_loop):
    loop = make_shared(make_loop, 0.25, max_num_seqs=1)
    for number in range(100):
        loop.submit(f"urgent{number}", 4, max_tokens=8, tenant="urgent")
    loop.steps(400)
    before = len(loop.finished)
    for number in range(40):
        loop.submit(f"batch{number}", 4, max_tokens=8, tenant="batch", priority=10)
    while len(loop.finished) < before + 24:
        loop.step()
    assert sum(name.startswith("batch") for name in loop.finished) == pytest.approx(6, abs=2)


def test_what_a_request_was_expected_to_take_and_did_not_is_owed_again(make_loop):
    """Chats may fill the context, and seldom do."""
    loop = make_shared(make_loop, 0.25, max_num_seqs=4, max_model_len=512)
    for number in range(200):
        stops = {"stop_token_ids": frozenset([7])}
        loop.submit(f"batch{number}", 8, max_tokens=500, tenant="batch", priority=10, **stops)
        loop.submit(f"urgent{number}", 8, max_tokens=500, tenant="urgent", **stops)
    while len(loop.finished) < 200:
        loop.step()
    assert part_of_batch(loop) == pytest.approx(0.25, abs=0.05)


def test_shares_change_while_requests_wait(make_loop):
    loop = make_shared(make_loop, 0.0, max_num_seqs=2)
    submit_many(loop, 200)
    loop.steps(100)
    assert part_of_batch(loop) == 0
    loop.scheduler.set_contract(Contract({"batch": Terms(min_share=0.5)}))
    before = len(loop.finished)
    loop.steps(200)
    batch = sum(name.startswith("batch") for name in loop.finished)
    assert batch / (len(loop.finished) - before) == pytest.approx(0.5, abs=0.1)
    loop.scheduler.set_contract(Contract())
    loop.scheduler.set_policy(
        policy_of(PolicyName.SLO, loop.scheduler.tenants, PrefillRate(), age_s=1e6), loop.now_s
    )
    loop.drain()
    assert len(loop.finished) == 400


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "0.5", True, None])
def test_a_share_is_a_number_up_to_one(share):
    with pytest.raises(LimitsError, match=r"tenants.items.acme.min_share: takes a number from 0 to 1"):
        Contract().changed({"items": {"acme": {"min_share": share}}})


def test_shares_are_one_together_at_most_and_nobodys_by_default():
    half = Contract().changed({"items": {"a": {"min_share": 0.5}, "b": {"min_share": 0.5}}})
    with pytest.raises(LimitsError, match=r"tenants.items.min_share"):
        half.changed({"items": {"c": {"min_share": 0.1}}})
    assert half.changed({"items": {"a": None, "c": {"min_share": 0.5}}}).shares == {"b": 0.5, "c": 0.5}
    with pytest.raises(LimitsError, match=r"tenants.default.min_share"):
        half.changed({"default": {"min_share": 0.1}})
