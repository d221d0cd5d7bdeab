"""A tenant's own limits: they hold back that tenant, and nobody else."""

import pytest

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import LimitsError
from headrace_engine.core.plan import Hold
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.tenants import Tenants


def flood(loop, count, **terms):
    loop.scheduler.set_contract(Contract({"flood": Terms(**terms)}))
    return [loop.submit(f"flood{number}", 4, max_tokens=4, tenant="flood") for number in range(count)]


def test_a_tenant_at_its_cap_is_passed_by_others(make_loop):
    loop = make_loop(max_num_seqs=4)
    flood(loop, 5, max_num_seqs=2)
    loop.submit("quiet", 4, tenant="quiet")
    plan = loop.plan()
    assert {row.request_id for row in plan.rows} == {"flood0", "flood1", "quiet"}
    assert plan.holds == (Hold.TENANT,) * 3
    loop.commit(plan)
    loop.drain()
    assert len(loop.finished) == 6


def test_those_held_by_their_tenants_cap_come_in_their_order(make_loop):
    loop = make_loop(max_num_seqs=4)
    flood(loop, 5, max_num_seqs=1)
    loop.drain()
    assert list(loop.finished) == [f"flood{number}" for number in range(5)]


def test_a_slot_of_a_tenant_goes_to_its_own_next_request(make_loop):
    loop = make_loop(max_num_seqs=4)
    flood(loop, 3, max_num_seqs=1)
    loop.step()
    loop.scheduler.abort("flood0")
    assert set(loop.step()) == {"flood1"}


def test_whoever_is_held_can_be_aborted(make_loop):
    loop = make_loop(max_num_seqs=4)
    flood(loop, 3, max_num_seqs=1)
    loop.step()
    loop.scheduler.abort("flood1")
    loop.drain()
    assert loop.snapshot.num_waiting == 0
    assert loop.snapshot.accepted_total == loop.snapshot.finished_total == 3


def test_a_raised_cap_holds_from_the_next_step(make_loop):
    loop = make_loop(max_num_seqs=8)
    flood(loop, 6, max_num_seqs=1)
    loop.step()
    loop.scheduler.set_contract(Contract())
    assert len(loop.step()) == 6


def test_held_requests_follow_a_change_of_the_policy(make_loop):
    loop = make_loop(max_num_seqs=8)
    flood(loop, 6, max_num_seqs=1)
    loop.step()
    policy = policy_of(PolicyName.FAIR, Tenants(), PrefillRate())
    loop.scheduler.set_policy(policy, loop.now_s)
    loop.drain()
    assert len(loop.finished) == 6


def test_a_held_tenant_does_not_keep_a_better_class_from_a_slot(make_loop):
    loop = make_loop(
        max_num_seqs=2, policy=policy_of(PolicyName.PRIORITY, Tenants(), PrefillRate(), age_s=1.0)
    )
    loop.scheduler.set_contract(Contract({"flood": Terms(max_num_seqs=1)}))
    for number in range(3):
        loop.submit(f"flood{number}", 4, max_tokens=40, tenant="flood")
    loop.submit("slow", 4, max_tokens=40, priority=5)
    loop.steps(2)
    loop.submit("urgent", 4, priority=0, tenant="other")
    loop.steps(2)
    assert loop.requests["urgent"].first_scheduled_s is not None
    assert loop.requests["slow"].preemptions == 1


def test_the_queue_of_a_tenant_is_bounded_in_requests(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("running", 4)
    loop.step()
    rejections = flood(loop, 4, max_num_queued_reqs=2)
    assert [rejection and rejection.reason for rejection in rejections] == [
        *(None, None),
        *("tenant_queue_full_requests",) * 2,
    ]
    assert rejections[2].retry_after_s >= 1.0
    assert loop.submit("quiet", 4, tenant="quiet") is None


def test_the_queue_of_a_tenant_is_bounded_in_tokens(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("running", 4)
    loop.step()
    rejections = flood(loop, 3, max_num_queued_tokens=8)
    assert [rejection and rejection.reason for rejection in rejections] == [
        *(None, None),
        "tenant_queue_full_tokens",
    ]


def test_a_tenant_beyond_its_cap_queues_though_slots_are_free(make_loop):
    loop = make_loop(max_num_seqs=8)
    rejections = flood(loop, 4, max_num_seqs=2, max_num_queued_reqs=1)
    assert [rejection is None for rejection in rejections] == [True, True, True, False]


class TestTermsAreCheckedWhole:
    def test_terms_left_out_stay(self):
        contract = Contract().changed({"items": {"acme": {"weight": 2, "max_num_seqs": 4}}})
        contract = contract.changed({"items": {"acme": {"weight": 3}}})
        assert contract.of("acme") == Terms(weight=3, max_num_seqs=4)

    def test_null_gives_a_tenant_the_default(self):
        contract = Contract().changed({"default": {"weight": 5}, "items": {"acme": {"weight": 2}}})
        assert contract.changed({"items": {"acme": None}}).of("acme") == Terms(weight=5)

    @pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), "2", True, None])
    def test_a_weight_is_a_number_in_bounds(self, weight):
        with pytest.raises(LimitsError, match=r"tenants.items.acme.weight"):
            Contract().changed({"items": {"acme": {"weight": weight}}})

    @pytest.mark.parametrize(
        ("terms", "name"),
        [
            ({"priority": -21}, "priority"),
            ({"priority": 20}, "priority"),
            ({"priority": 1.0}, "priority"),
            ({"priority": True}, "priority"),
            ({"priority": None}, "priority"),
            ({"best_priority": 1}, "best_priority"),
            ({"best_priority": -21}, "best_priority"),
            ({"priority": -3, "best_priority": -2}, "best_priority"),
        ],
    )
    def test_classes_are_those_of_nice_and_the_best_is_no_worse_than_the_default(self, terms, name):
        with pytest.raises(LimitsError, match=rf"tenants.items.acme.{name}: takes an integer"):
            Contract().changed({"items": {"acme": terms}})


def test_the_prefill_rate_is_that_of_full_steps():
    rate = PrefillRate(tokens_per_s=100.0, memory_s=10.0)
    assert rate.tokens_per_s == 100.0
    for _ in range(50):
        rate.observe(64, 0.1)
    assert rate.tokens_per_s == pytest.approx(640)


def test_the_scheduler_measures_its_prefills(make_loop):
    loop = make_loop(max_num_batched_tokens=64)
    loop.submit("long", 256, max_tokens=2)
    loop.steps(4)
    assert loop.scheduler.prefill_rate.tokens_per_s == pytest.approx(64 / 0.01)
    before = loop.scheduler.prefill_rate.tokens_per_s
    loop.submit("short", 2, max_tokens=2)
    loop.steps(3)
    assert loop.scheduler.prefill_rate.tokens_per_s == before
