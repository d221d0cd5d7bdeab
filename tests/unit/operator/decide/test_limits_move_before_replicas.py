"""What the rules do with one interval of measurements, each as a short story."""

from dataclasses import replace

import pytest
from operator_builders import NOW_S, observation, pod, service, window

from headrace_operator.api.spec import Limits, ServiceSpec
from headrace_operator.api.vocabulary import Action, Reason
from headrace_operator.decide.assess import assess
from headrace_operator.decide.decision import Decision
from headrace_operator.decide.modes import mandate
from headrace_operator.decide.rules import choose

OVERLOADED_FOR_A_WHILE = {"pressure": {"overloadedSince": "2027-01-15T07:59:00Z"}}
LIMITS_8_OF_16 = {"activeLimits": {"maxNumSeqs": 8, "maxNumBatchedTokens": 512}}


def decision(spec: ServiceSpec, **seen: object) -> Decision:
    situation = assess(observation(spec, **seen), spec, scrape_interval_s=2.0, now_s=NOW_S)
    return choose(situation, mandate(spec).considered)


def test_a_calm_service_is_left_alone():
    calm = decision(service(), recent=window())
    assert (calm.action, calm.reason) == (Action.HOLD, Reason.WITHIN_TARGET)
    assert "queue p95" in calm.message


def test_a_queue_behind_a_full_batch_raises_the_sequence_limit_where_itl_has_room():
    busy = window(queue_s=0.9, itl_s=0.08, running_per_pod=8.0, running_peak=8.0)
    move = decision(service(), recent=busy, previous=LIMITS_8_OF_16)
    assert (move.action, move.reason) == (Action.RAISE_SEQ_LIMIT, Reason.SEQ_LIMIT_SATURATED)
    assert move.after.limits == Limits(10, 512)
    assert move.message.startswith(
        "maxNumSeqs 8 to 10: queue p95 900ms > 500ms budget; itl p95 80ms of 200ms"
    )


def test_a_raise_goes_no_further_than_itl_allows():
    busy = window(queue_s=0.9, itl_s=0.17, running_per_pod=8.0, running_peak=8.0)
    spec = service({"tuning": {"maxChangePercent": 100}})
    move = decision(spec, recent=busy, previous=LIMITS_8_OF_16)
    assert move.action is Action.HOLD
    raised = decision(spec, recent=replace(busy, itl_s=window(itl_s=0.15).itl_s), previous=LIMITS_8_OF_16)
    assert raised.after.limits.max_num_seqs == 10


def test_a_queue_behind_used_up_steps_raises_the_token_budget():
    previous = {"activeLimits": {"maxNumSeqs": 16, "maxNumBatchedTokens": 256}}
    busy = window(queue_s=0.9, budget_used=1.0, running_per_pod=4.0)
    move = decision(service(), recent=busy, previous=previous)
    assert (move.action, move.reason) == (Action.RAISE_BUDGET, Reason.BUDGET_SATURATED)
    assert move.after.limits == Limits(16, 320)


def test_slow_tokens_of_a_request_that_runs_alone_lower_no_limit():
    alone = window(itl_s=0.3, running_per_pod=0.7, running_peak=2.0)
    held = decision(service(), recent=alone)
    assert (held.action, held.reason) == (Action.HOLD, Reason.SLO_INFEASIBLE)


def test_slow_tokens_under_heavy_prefill_lower_the_token_budget():
    slow = window(itl_s=0.3, budget_used=0.95, prompt_tokens=40_000, steps=400)
    move = decision(service(), recent=slow)
    assert (move.action, move.reason) == (Action.LOWER_BUDGET, Reason.ITL_OVER_TARGET)
    assert 512 * 0.7 <= move.after.limits.max_num_batched_tokens < 512


def test_slow_tokens_without_prefill_lower_the_sequence_limit_from_what_is_in_use():
    slow = window(itl_s=0.3, prompt_tokens=10, running_per_pod=7.5, running_peak=8.0)
    move = decision(service(), recent=slow)
    assert move.action is Action.LOWER_SEQ_LIMIT
    assert move.after.limits == Limits(6, 512)
    assert move.message.startswith("maxNumSeqs 16 to 6 (8 in use at most): itl p95 300ms > 200ms")


def test_a_limit_at_which_itl_broke_is_not_tried_again():
    previous = {
        "desiredReplicas": 1,
        "activeLimits": {"maxNumSeqs": 8, "maxNumBatchedTokens": 512},
        "history": [
            {
                "id": "1",
                "at": "2027-01-15T07:58:00Z",
                "generation": 1,
                "action": "LowerSeqLimit",
                "reason": "ITLOverTarget",
                "message": "",
                "outcome": "Kept",
                "before": {"replicas": 1, "maxNumSeqs": 9, "maxNumBatchedTokens": 512},
                "after": {"replicas": 1, "maxNumSeqs": 8, "maxNumBatchedTokens": 512},
            }
        ],
    }
    busy = window(queue_s=0.9, itl_s=0.05, running_per_pod=8.0, running_peak=8.0)
    move = decision(service(), recent=busy, previous=previous)
    assert move.action is Action.HOLD
    assert move.rejections[0].word == Reason.AT_MAX


def test_a_queue_that_limits_cannot_shorten_adds_a_replica_once_it_has_lasted():
    bound = window(queue_s=0.9, itl_s=0.19, running_per_pod=16.0, running_peak=16.0)
    waiting = decision(service(), recent=bound)
    assert (waiting.action, waiting.reason) == (Action.HOLD, Reason.STABILIZING)
    lasted = decision(service(), recent=bound, previous=OVERLOADED_FOR_A_WHILE)
    assert (lasted.action, lasted.reason) == (Action.SCALE_UP, Reason.QUEUE_TIME_OVER_BUDGET)
    assert lasted.after.replicas == 2
    assert lasted.rejections[0].action is Action.RAISE_SEQ_LIMIT


def test_slow_steps_that_make_first_tokens_late_too_are_shortened_first():
    slow = window(ttft_s=2.0, itl_s=0.3, running_per_pod=16.0, running_peak=16.0, prompt_tokens=10)
    move = decision(service(), recent=slow, previous=OVERLOADED_FOR_A_WHILE)
    assert move.action is Action.LOWER_SEQ_LIMIT


def test_both_targets_missed_adds_a_replica_and_leaves_the_limits():
    both = window(queue_s=0.9, itl_s=0.3, running_per_pod=16.0)
    move = decision(service(), recent=both, previous=OVERLOADED_FOR_A_WHILE)
    assert move.action is Action.SCALE_UP


def test_at_the_most_replicas_itl_is_protected_only_where_a_deadline_sheds_the_queue():
    both = window(queue_s=0.9, itl_s=0.3, running_per_pod=16.0, running_peak=16.0, prompt_tokens=10)
    full = {"scaling": {"maxReplicas": 1}}
    assert decision(service(full), recent=both, previous=OVERLOADED_FOR_A_WHILE).reason is Reason.AT_MAX
    shedding = service({**full, "slo": {"queueDeadline": "1s"}})
    assert decision(shedding, recent=both, previous=OVERLOADED_FOR_A_WHILE).action is Action.LOWER_SEQ_LIMIT


def test_refusing_more_than_the_slo_forgives_counts_as_a_queue():
    shedding = window(queue_s=0.1, itl_s=0.19, rejections=20, running_per_pod=16.0)
    move = decision(service(), recent=shedding, previous=OVERLOADED_FOR_A_WHILE)
    assert move.action is Action.SCALE_UP
    assert "20% of the requests refused" in move.message


def test_a_target_that_a_lone_request_misses_buys_no_replica():
    slow = window(ttft_s=2.0, running_per_pod=0.8, running_peak=1.0)
    move = decision(service(), recent=slow, previous=OVERLOADED_FOR_A_WHILE)
    assert (move.action, move.reason) == (Action.HOLD, Reason.SLO_INFEASIBLE)


def test_no_second_replica_for_the_same_demand_while_one_loads():
    bound = window(queue_s=0.9, itl_s=0.19, running_per_pod=16.0)
    pods = (pod(0), pod(1, ready=False))
    previous = {**OVERLOADED_FOR_A_WHILE, "desiredReplicas": 2}
    move = decision(service(), recent=bound, pods=pods, previous=previous)
    assert (move.action, move.reason) == (Action.HOLD, Reason.SCALING_IN_PROGRESS)


@pytest.mark.parametrize(("gpus", "reason"), [(1, Reason.INSUFFICIENT_GPU), (0, Reason.SCALING_IN_PROGRESS)])
def test_a_pod_that_finds_no_node_stops_the_buying_and_says_so(gpus, reason):
    spec = service({"engine": {"gpu": {"count": gpus}}} if gpus else {})
    bound = window(queue_s=0.9, itl_s=0.19, running_per_pod=16.0)
    lacks = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu, 1 Insufficient cpu."
    pods = (pod(0), pod(1, ready=False, trouble="Unschedulable", trouble_message=lacks))
    previous = {**OVERLOADED_FOR_A_WHILE, "desiredReplicas": 2}
    move = decision(spec, recent=bound, pods=pods, previous=previous)
    assert (move.action, move.reason) == (Action.HOLD, reason)
    assert "Unschedulable" in move.message


IDLE = {"running_per_pod": 1.0, "running_peak": 2.0, "pods_reporting": 2, "pods_expected": 2}
SLACK_FOR_A_WHILE = {
    "desiredReplicas": 2,
    "pressure": {"enough": [{"replicas": 1, "since": "2027-01-15T07:58:00Z"}]},
}


def test_a_service_that_nobody_uses_holds_and_says_that_there_is_nothing_to_judge_by():
    quiet = window(queue_s=None, ttft_s=None, itl_s=None, arrivals=0, running_per_pod=0.0, running_peak=0.0)
    move = decision(service(), recent=quiet)
    assert (move.action, move.reason) == (Action.HOLD, Reason.WITHIN_TARGET)
    assert move.message.startswith("no latency to judge by; 0.0 of 16 sequences run per pod")


def test_slack_that_lasted_removes_one():
    move = decision(service(), recent=window(**IDLE), pods=(pod(0), pod(1)), previous=SLACK_FOR_A_WHILE)
    assert (move.action, move.reason, move.after.replicas) == (
        Action.SCALE_DOWN,
        Reason.HEADROOM_EXCESS,
        1,
    )
    assert move.message.startswith("1 replica has been enough for ")


@pytest.mark.parametrize(
    ("why", "fields"),
    [
        ("would run 14.0 of 16", {"running_per_pod": 7.0}),
        ("may queue 300ms", {"queue_s": 0.15}),
        ("between tokens", {"itl_s": 0.15, "running_per_pod": 4.0}),
        ("KV cache", {"kv_used_ratio": 0.5}),
        ("token budget", {"budget_used": 0.5}),
    ],
)
def test_slack_is_what_one_replica_less_could_carry(why, fields):
    seen = window(**{**IDLE, **fields})
    move = decision(service(), recent=seen, pods=(pod(0), pod(1)), previous=SLACK_FOR_A_WHILE)
    assert move.action is Action.HOLD
    assert why in move.rejections[-1].message


def test_what_so_few_replicas_once_failed_to_serve_is_remembered():
    previous = {
        **SLACK_FOR_A_WHILE,
        "history": [
            {
                "id": "1",
                "at": "2027-01-15T07:40:00Z",
                "generation": 1,
                "action": "ScaleUp",
                "reason": "QueueTimeOverBudget",
                "message": "",
                "tokensPerSecond": "360.0",
                "before": {"replicas": 1, "maxNumSeqs": 16, "maxNumBatchedTokens": 512},
                "after": {"replicas": 2, "maxNumSeqs": 16, "maxNumBatchedTokens": 512},
            }
        ],
    }
    pods = (pod(0), pod(1))
    busy = decision(service(), recent=window(**IDLE), pods=pods, previous=previous)
    assert busy.action is Action.HOLD
    assert "1 were too few at 360 tokens/s, now 350" in busy.rejections[-1].message
    quiet = window(**IDLE, generation_tokens=1000)
    assert decision(service(), recent=quiet, pods=pods, previous=previous).action is Action.SCALE_DOWN
    alone = window(**{**IDLE, "running_per_pod": 0.5, "running_peak": 1.0})
    assert decision(service(), recent=alone, pods=pods, previous=previous).action is Action.SCALE_DOWN, (
        "one user may get more done alone than a crowd did in one pod of a busy machine"
    )
