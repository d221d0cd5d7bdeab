"""Several outputs of one prompt: the first computes it, the others find it, and nobody waits in vain."""

import pytest

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.plan import Finished, Tokens
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.request import FinishReason
from headrace_engine.core.tenants import Tenants

PROMPT = tuple(range(1, 11))


def submit_three(loop, **fields):
    loop.submit("a", PROMPT, max_tokens=3, **fields)
    loop.submit("b", PROMPT, max_tokens=3, leader="a", **fields)
    loop.submit("c", PROMPT, max_tokens=3, leader="a", **fields)


def test_the_others_find_what_the_first_has_computed(make_loop):
    loop = make_loop(block_size=4)
    submit_three(loop)
    assert loop.step() == {"a": 10}
    assert loop.snapshot.num_waiting == 2
    assert loop.step() == {"a": 1, "b": 2, "c": 2}
    loop.drain()
    assert [loop.finished[name].cached_tokens for name in "abc"] == [0, 8, 8]


def test_a_prompt_in_chunks_is_waited_for_to_its_end(make_loop):
    loop = make_loop(block_size=4, max_num_batched_tokens=4)
    submit_three(loop)
    assert [loop.step() for _ in range(3)] == [{"a": 4}, {"a": 4}, {"a": 2}]
    assert loop.step() == {"a": 1, "b": 2, "c": 1}


def test_others_pass_while_they_wait(make_loop):
    loop = make_loop(block_size=4, max_num_batched_tokens=4)
    submit_three(loop)
    loop.submit("z", 1, max_tokens=1)
    for _ in range(3):
        loop.step()
    assert "z" in loop.finished
    assert loop.requests["b"].first_scheduled_s is None


def test_whoever_leads_and_ends_early_lets_them_go(make_loop):
    for end in (
        lambda loop: loop.scheduler.abort("a"),
        lambda loop: loop.scheduler.fail(loop.plan(), "it broke"),
    ):
        loop = make_loop(block_size=4)
        submit_three(loop)
        end(loop)
        loop.drain()
        assert {loop.finished[name].reason for name in "bc"} == {FinishReason.LENGTH}


def test_one_that_waits_for_its_leader_can_be_aborted_and_expires(make_loop):
    loop = make_loop(block_size=4, max_num_batched_tokens=2)
    submit_three(loop, queue_deadline_s=0.03)
    loop.step()
    assert loop.scheduler.abort("b") == Finished("b", FinishReason.ABORT, prompt_tokens=10)
    loop.now_s = 1.0
    assert [event.request_id for event in loop.scheduler.expire(loop.now_s)] == ["c"]
    assert loop.snapshot.num_waiting == 0


def test_a_leader_that_is_not_there_is_not_waited_for(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("b", PROMPT, max_tokens=1, leader="gone")
    assert loop.step() == {"b": 10}


def test_a_prompt_that_nothing_is_generated_from_lets_them_go(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("a", PROMPT, max_tokens=0)
    loop.submit("b", PROMPT, max_tokens=1, leader="a")
    loop.drain()
    assert loop.finished["b"].cached_tokens == 8


def test_a_new_policy_forgets_nobody(make_loop):
    loop = make_loop(block_size=4, max_num_batched_tokens=4)
    submit_three(loop)
    loop.step()
    loop.scheduler.set_policy(policy_of(PolicyName.FAIR, Tenants(), PrefillRate()), loop.now_s)
    assert loop.snapshot.num_waiting == 2
    loop.drain()
    assert set(loop.finished) == {"a", "b", "c"}


@pytest.mark.parametrize("steps_before", range(4))
@pytest.mark.parametrize("policy", PolicyName)
def test_under_a_new_policy_nobody_is_ahead_of_who_leads(make_loop, policy, steps_before):
    """What is told of a prompt, its leader tells: an output that came before it would be told of nothing."""
    loop = make_loop(block_size=4, long_prefill_token_threshold=4)
    loop.submit("before", PROMPT, max_tokens=1)
    loop.drain()
    loop.submit("a", PROMPT, max_tokens=3, block_salt=b"so that its prompt is computed")
    loop.submit("b", PROMPT, max_tokens=2, leader="a")
    loop.steps(steps_before)
    scheduler = loop.scheduler
    scheduler.set_policy(policy_of(policy, scheduler.tenants, scheduler.prefill_rate), loop.now_s)
    loop.drain()
    spoke = [event.request_id for event in loop.events if isinstance(event, Tokens)]
    assert spoke.index("a") < spoke.index("b")


def test_a_tenants_cap_holds_for_them_too(make_loop):
    loop = make_loop(block_size=4, tenants=Tenants(Contract({"t": Terms(max_num_seqs=1)})))
    submit_three(loop, tenant="t")
    while loop.scheduler.has_work():
        assert len(loop.step()) <= 1
    assert set(loop.finished) == {"a", "b", "c"}
