"""Who is admitted next, and who gives way: a story for each policy."""

import pytest

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.deadline import RELEGATED_SHARE
from headrace_engine.core.plan import Preempted
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.policy import FirstComeFirstServed
from headrace_engine.core.preemption import MAX_PREEMPTIONS
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.priority import BEST_PRIORITY, WORST_PRIORITY
from headrace_engine.core.tenants import Tenants


def make(make_loop, name, *, tenants=None, age_s=1.0, prefill_tokens_per_s=1000.0, **values):
    tenants = tenants or Tenants()
    policy = policy_of(PolicyName(name), tenants, PrefillRate(prefill_tokens_per_s), age_s=age_s)
    return make_loop(policy=policy, tenants=tenants, **values)


def admitted(loop):
    """Ids in the order of their first scheduling."""
    return [event.request_id for event in loop.events if hasattr(event, "queue_time_s")]


def preempted(loop):
    return [event.request_id for event in loop.events if isinstance(event, Preempted)]


# --- priority ---


def test_a_better_class_goes_first(make_loop):
    loop = make(make_loop, "priority", max_num_seqs=1)
    loop.submit("batch", 4, max_tokens=1, priority=5)
    loop.submit("chat", 4, max_tokens=1, priority=0)
    loop.drain()
    assert admitted(loop) == ["chat", "batch"]


def test_a_strictly_better_class_takes_a_slot_at_once(make_loop):
    loop = make(make_loop, "priority", max_num_seqs=1)
    loop.submit("batch", 4, max_tokens=20, priority=1)
    loop.steps(3)
    loop.submit("chat", 4, max_tokens=2, priority=0)
    assert loop.step() == {"chat": 4}
    assert preempted(loop) == ["batch"]
    loop.drain()
    assert loop.finished["batch"].output_tokens == 20


def test_a_better_class_takes_nothing_while_a_lowered_limit_drains(make_loop):
    """Whoever gave way would do so for nothing: no slot is free before as many as are too many have ended."""
    loop = make(make_loop, "priority", max_num_seqs=8)
    for number in range(8):
        loop.submit(f"batch{number}", 4, max_tokens=10 + number, priority=5)
    loop.steps(3)
    loop.change_limits(max_num_seqs=2)
    loop.submit("chat", 4, max_tokens=2, priority=0)
    loop.drain()
    assert len(preempted(loop)) == 1
    assert len(loop.finished) == 9


def test_an_equal_class_waits_for_a_slot(make_loop):
    loop = make(make_loop, "priority", max_num_seqs=1)
    loop.submit("first", 4, max_tokens=20, priority=1)
    loop.step()
    loop.submit("second", 4, priority=1)
    loop.drain()
    assert preempted(loop) == []


def test_a_better_class_takes_blocks_from_a_worse_one(make_loop):
    loop = make(make_loop, "priority", num_blocks=4, block_size=4)
    loop.submit("batch", 12, max_tokens=4, priority=1)
    loop.steps(2)
    loop.submit("chat", 8, max_tokens=2, priority=0)
    loop.step()
    assert loop.step() == {"chat": 8}
    loop.drain()
    assert preempted(loop) == ["batch"]
    assert loop.finished["batch"].output_tokens == 4


def test_a_decode_short_of_blocks_takes_them_from_a_worse_class_though_it_loses_more(make_loop):
    loop = make(make_loop, "priority", num_blocks=6, block_size=2)
    loop.submit("batch", 6, max_tokens=7, priority=1)
    loop.step()
    loop.submit("chat", 1, max_tokens=9, priority=0)
    loop.drain()
    assert set(preempted(loop)) == {"batch"}
    assert loop.requests["chat"].preemptions == 0


def test_a_preempted_request_resumes_before_newcomers_of_its_class(make_loop):
    loop = make(make_loop, "priority", max_num_seqs=1)
    loop.submit("batch", 4, max_tokens=20, priority=1)
    loop.step()
    loop.submit("newcomer", 4, max_tokens=1, priority=1)
    loop.submit("chat", 4, max_tokens=2, priority=0)
    loop.drain()
    assert list(loop.finished) == ["chat", "batch", "newcomer"]


def test_low_priority_does_not_starve_beyond_the_stated_bound(make_loop):
    """Class 3 with an age of 0.1 s: it waits behind nobody who came more than 0.3 s after it."""
    loop = make(make_loop, "priority", max_num_seqs=1, age_s=0.1)
    loop.submit("batch", 4, max_tokens=1, priority=3)
    while "batch" not in loop.finished:
        loop.submit(f"chat{len(loop.requests)}", 4, max_tokens=2, priority=0)
        loop.step()
    arrivals_s = [loop.requests[name].arrival_s for name in admitted(loop)[:-1]]
    assert 0.25 < max(arrivals_s) <= 0.3


def test_nobody_is_preempted_more_often_than_the_bound_whatever_comes(make_loop):
    loop = make(make_loop, "priority", max_num_seqs=1, age_s=1000.0)
    loop.submit("batch", 4, max_tokens=50, priority=1)
    while "batch" not in loop.finished:
        if loop.requests["batch"].status == "running":
            loop.submit(f"chat{len(loop.requests)}", 4, max_tokens=2, priority=0)
        loop.step()
    assert preempted(loop) == ["batch"] * MAX_PREEMPTIONS


@pytest.mark.parametrize("priority", [-(2**31), BEST_PRIORITY - 1, -1, WORST_PRIORITY + 1, 2**31 - 1])
def test_a_client_cannot_name_a_class_of_its_own_or_one_that_is_not_its_tenants(make_loop, priority):
    loop = make(make_loop, "priority")
    rejection = loop.submit("pushy", 4, priority=priority)
    assert rejection.reason == "invalid_priority"
    assert "0 to 19" in rejection.message


def test_a_tenant_names_the_classes_that_its_terms_let_it(make_loop):
    tenants = Tenants(Contract({"gold": Terms(priority=-5, best_priority=-10)}))
    loop = make(make_loop, "priority", tenants=tenants)
    taken = [p for p in range(-25, 25) if loop.submit(f"r{p}", 4, tenant="gold", priority=p) is None]
    assert taken == list(range(-10, WORST_PRIORITY + 1))


def test_who_names_no_class_gets_the_one_that_its_tenant_has_when_it_is_submitted(make_loop):
    loop = make(make_loop, "priority", tenants=Tenants(Contract({"batch": Terms(priority=5)})))
    assert loop.submit("named before", 4, tenant="batch", priority=0).reason == "invalid_priority"
    assert loop.submit("unnamed", 4, tenant="batch", takes_tenants_priority=True) is None
    assert loop.requests["unnamed"].priority == 5


def test_the_prompt_of_a_better_class_is_computed_before_one_under_way(make_loop):
    loop = make(make_loop, "priority", max_num_batched_tokens=8)
    loop.submit("book", 100, priority=1)
    loop.step()
    loop.submit("chat", 6, priority=0)
    assert loop.step() == {"chat": 6, "book": 2}


def test_who_was_admitted_by_age_is_not_preempted_by_a_better_class(make_loop):
    loop = make(make_loop, "priority", max_num_seqs=1, age_s=0.1)
    loop.submit("batch", 4, max_tokens=20, priority=1)
    loop.step()
    loop.now_s += 0.2
    loop.submit("chat", 4, max_tokens=1, priority=0)
    loop.drain()
    assert preempted(loop) == []


def test_a_growing_batch_takes_no_blocks_from_a_better_class(make_loop):
    loop = make(make_loop, "priority", num_blocks=6, block_size=2)
    loop.submit("batch", 6, max_tokens=6, priority=1)
    loop.step()
    loop.submit("chat", 2, max_tokens=3, priority=0)
    loop.drain()
    assert loop.requests["chat"].preemptions == 0


# --- shortest ---


def test_a_short_prompt_goes_before_a_long_one_and_a_long_one_is_not_starved(make_loop):
    loop = make(make_loop, "shortest", max_num_seqs=1, max_num_batched_tokens=512)
    loop.submit("running", 4, max_tokens=2)
    loop.step()
    loop.submit("book", 300, max_tokens=1)
    loop.submit("note", 4, max_tokens=1)
    loop.step()
    assert loop.step() == {"note": 4}
    while "book" not in loop.finished:
        loop.submit(f"note{len(loop.requests)}", 4, max_tokens=2)
        loop.step()
    arrivals_s = [loop.requests[name].arrival_s for name in admitted(loop)[:-1]]
    assert 0.25 < max(arrivals_s) <= loop.requests["book"].arrival_s + 0.3


# --- deadline ---


def test_the_most_urgent_that_can_still_make_it_goes_first(make_loop):
    loop = make(make_loop, "deadline", max_num_seqs=1)
    loop.submit("relaxed", 4, max_tokens=1, first_token_deadline_s=5.0)
    loop.submit("urgent", 4, max_tokens=1, first_token_deadline_s=1.0)
    loop.submit("long", 900, max_tokens=1, first_token_deadline_s=1.85)
    loop.drain()
    assert admitted(loop) == ["long", "urgent", "relaxed"]


def test_who_cannot_make_it_any_more_does_not_make_others_late(make_loop):
    loop = make(make_loop, "deadline", max_num_seqs=1)
    loop.submit("lost", 4, max_tokens=1, first_token_deadline_s=-1.0)
    loop.submit("in-time", 4, max_tokens=1, first_token_deadline_s=1.0)
    loop.drain()
    assert admitted(loop) == ["in-time", "lost"]


def test_who_is_too_late_is_not_starved(make_loop):
    loop = make(make_loop, "deadline", max_num_seqs=1)
    loop.submit("lost", 4, max_tokens=1, first_token_deadline_s=-1.0)
    while "lost" not in loop.finished:
        loop.submit(f"r{len(loop.requests)}", 4, max_tokens=1, first_token_deadline_s=loop.now_s + 1.0)
        loop.step()
    assert len(loop.finished) == RELEGATED_SHARE


def test_who_names_no_deadline_is_served_among_the_rest(make_loop):
    loop = make(make_loop, "deadline", max_num_seqs=1, max_num_batched_tokens=64)
    loop.submit("patient", 4, max_tokens=1)
    for number in range(4000):
        loop.submit(f"r{number}", 4, max_tokens=1, first_token_deadline_s=loop.now_s + 1.0)
        loop.step()
        if "patient" in loop.finished:
            break
    assert 25.0 < loop.requests["patient"].first_scheduled_s < 31.0


# --- all of them ---


def test_feasibility_comes_before_class_before_tenant_before_deadline(make_loop):
    loop = make(make_loop, "slo", max_num_seqs=1, age_s=100.0)
    loop.submit("running", 4, max_tokens=2, tenant="flood")
    loop.step()
    loop.submit("late", 4, max_tokens=1, priority=0, first_token_deadline_s=-1.0)
    loop.submit("worse-class", 4, max_tokens=1, priority=1, tenant="quiet", first_token_deadline_s=0.5)
    loop.submit("relaxed", 4, max_tokens=1, tenant="quiet", first_token_deadline_s=9.0)
    loop.submit("urgent", 4, max_tokens=1, tenant="quiet", first_token_deadline_s=5.0)
    loop.drain()
    assert admitted(loop)[1:] == ["urgent", "relaxed", "worse-class", "late"]


@pytest.mark.parametrize("name", PolicyName)
def test_a_policy_can_change_while_requests_wait(make_loop, name):
    loop = make(make_loop, "fcfs", max_num_seqs=1)
    for number in range(6):
        loop.submit(f"r{number}", 4, max_tokens=2, priority=6 - number, tenant=f"t{number % 2}")
    loop.step()
    loop.scheduler.set_policy(policy_of(name, Tenants(), PrefillRate()), loop.now_s)
    loop.scheduler.abort("r3")
    loop.drain()
    assert len(loop.finished) == 5


def test_a_new_policy_keeps_the_resumed_in_their_order(make_loop):
    loop = make(make_loop, "fcfs", max_num_seqs=2)
    for name in ("first", "second"):
        loop.submit(name, 4, max_tokens=5)
    loop.step()
    for name in ("second", "first"):
        loop.scheduler._life.preempt(loop.requests[name], loop.now_s)
    loop.submit("newcomer", 4)
    loop.scheduler.set_policy(FirstComeFirstServed(), loop.now_s)
    assert list(loop.step()) == ["first", "second"]
