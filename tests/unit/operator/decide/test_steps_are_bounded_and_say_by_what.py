"""How many replicas one decision adds or removes, how soon the next, and which field bounds it."""

import pytest
from operator_builders import NOW_S, SETTINGS, observation, pod, service, window

from headrace_operator.api.units import time_text
from headrace_operator.decide.controller import decide

SWAMPED = {"queue_s": 9.0, "ttft_s": 9.0, "itl_s": 0.19, "running_per_pod": 16.0, "running_peak": 16.0}
IDLE = {
    "running_per_pod": 0.5,
    "running_peak": 1.0,
    "itl_s": 0.02,
    "kv_used_ratio": 0.02,
    "budget_used": 0.02,
}


def decided(replicas, *, scaling, seen, pressure=None, **spec):
    wanted = service({"scaling": {"maxReplicas": 20, **scaling}, "tuning": {"mode": "Off"}, **spec})
    recent = window(pods_reporting=replicas, pods_expected=replicas, **seen)
    facts = observation(
        wanted,
        pods=[pod(number) for number in range(replicas)],
        recent=recent,
        previous={"desiredReplicas": replicas, "pressure": pressure or {}},
    )
    return decide(facts, wanted, settings=SETTINGS, now_s=NOW_S).status


def added(replicas, *, arrivals=1000, finished=100, waiting=900.0, scaling=None, **spec):
    """After a step up of an overload that has lasted: what arrives is ten times what ends."""
    seen = {**SWAMPED, "arrivals": arrivals, "good": finished, "waiting": waiting}
    lasted = {"overloadedSince": time_text(NOW_S - 600)}
    status = decided(replicas, scaling=scaling or {}, seen=seen, pressure=lasted, **spec)
    return status["desiredReplicas"], status["decision"].get("limitedBy"), status["decision"]["message"]


@pytest.mark.parametrize(
    ("replicas", "scale_up", "after", "bound"),
    [
        (1, {}, 5, "scaling.scaleUp.maxStepPods"),
        (6, {}, 12, "scaling.scaleUp.maxStepPercent"),
        (6, {"maxStepPercent": 50}, 10, "scaling.scaleUp.maxStepPods"),
        (1, {"maxStepPods": 1, "maxStepPercent": 0}, 2, "scaling.scaleUp.maxStepPods"),
        (3, {"maxStepPods": 1, "maxStepPercent": 50}, 5, "scaling.scaleUp.maxStepPercent"),
    ],
)
def test_the_larger_of_two_bounds_is_a_step_up(replicas, scale_up, after, bound):
    found = added(replicas, scaling={"scaleUp": scale_up})
    assert found[:2] == (after, bound)


def test_no_more_are_added_than_are_needed_by_the_lower_of_two_estimates():
    assert added(2, arrivals=280, waiting=60.0)[:2] == (6, None)
    after, bound, message = added(2, arrivals=140, waiting=30.0)
    assert (after, bound) == (3, None)
    assert message.endswith("3.0 replicas needed")
    assert added(2, arrivals=1000, waiting=24.0)[0] == 4, "32 run and 24 wait: a queue is no arrival"
    after, _, message = added(2, arrivals=90, waiting=0.0)
    assert after == 3, "one at least"
    assert "needed" not in message, "an estimate that says that there are enough is no reason for a third"


def test_a_queue_that_gets_shorter_by_itself_buys_nothing_where_replicas_have_room():
    """It waits in one of them, of a time when there were fewer."""
    drains = {**SWAMPED, "arrivals": 80, "good": 100, "waiting": 40.0}
    lasted = {"overloadedSince": time_text(NOW_S - 600)}
    held = decided(3, scaling={}, seen={**drains, "running_per_pod": 9.0}, pressure=lasted)
    assert (held["desiredReplicas"], held["decision"]["reason"]) == (3, "Stabilizing")
    assert "3 work off what waits" in held["decision"]["message"]
    full = decided(3, scaling={}, seen={**drains, "waiting": 4000.0}, pressure=lasted)
    assert full["desiredReplicas"] > 3, "none has room, and it would last longer than a window"
    few = {**drains, "arrivals": 8, "good": 10, "running_per_pod": 9.0, "requests": 10}
    assert decided(3, scaling={}, seen=few, pressure=lasted)["desiredReplicas"] == 4, "by chance, perhaps"


def test_the_most_replicas_and_the_gpu_budget_bound_a_step_too():
    assert added(3, scaling={"maxReplicas": 5})[:2] == (5, "scaling.maxReplicas")
    gpus = {"engine": {"gpu": {"count": 1}}, "scaling": {"gpuBudget": 4}}
    assert added(3, **gpus)[:2] == (4, "scaling.gpuBudget")
    assert added(5, scaling={"maxReplicas": 5})[:2] == (5, "scaling.maxReplicas"), "nothing is done, by it"


def removed(replicas, levels, *, scale_down, since_removal_s=None):
    pressure = {"enough": [{"replicas": count, "since": time_text(NOW_S - ago_s)} for count, ago_s in levels]}
    if since_removal_s is not None:
        pressure["scaledDownAt"] = time_text(NOW_S - since_removal_s)
    down = {"stabilization": "60s", **scale_down}
    status = decided(replicas, scaling={"scaleDown": down}, seen=IDLE, pressure=pressure)
    return status["desiredReplicas"], status["decision"].get("limitedBy")


@pytest.mark.parametrize(
    ("levels", "after", "bound"),
    [
        ([(4, 300), (1, 90)], 1, None),
        ([(4, 300), (1, 30)], 4, "scaling.scaleDown.stabilization"),
        ([(4, 300), (3, 80), (1, 30)], 3, "scaling.scaleDown.stabilization"),
        ([(4, 30)], 5, "scaling.scaleDown.stabilization"),
    ],
)
def test_the_most_that_were_needed_in_the_stabilization_stay(levels, after, bound):
    assert removed(5, levels, scale_down={"maxStepPods": 9}) == (after, bound)


def test_a_step_down_removes_so_many_and_the_next_waits_for_its_period():
    long_ago = [(1, 600)]
    assert removed(5, long_ago, scale_down={}) == (4, "scaling.scaleDown.maxStepPods")
    assert removed(5, long_ago, scale_down={"maxStepPods": 3}) == (2, "scaling.scaleDown.maxStepPods")
    again = {"scale_down": {"period": "2m"}, "levels": long_ago}
    assert removed(5, since_removal_s=119, **again) == (5, "scaling.scaleDown.period")
    assert removed(5, since_removal_s=121, **again) == (4, "scaling.scaleDown.maxStepPods")
    assert removed(5, since_removal_s=-500, **again) == (5, "scaling.scaleDown.period"), "a clock set back"


def test_what_was_enough_is_remembered_over_a_removal_and_forgotten_by_an_addition():
    spec = service({"scaling": {"maxReplicas": 20, "scaleDown": {"stabilization": "60s"}}})
    levels = [{"replicas": count, "since": time_text(NOW_S - 300)} for count in (4, 2)]
    pods = [pod(number) for number in range(5)]
    idle = window(pods_reporting=5, pods_expected=5, **IDLE)
    before = {"desiredReplicas": 5, "pressure": {"enough": levels}}
    facts = observation(spec, pods=pods, recent=idle, previous=before)
    first = decide(facts, spec, settings=SETTINGS, now_s=NOW_S).status
    assert first["desiredReplicas"] == 4
    assert first["pressure"]["enough"][0]["replicas"] == 2
    assert first["pressure"]["scaledDownAt"] == time_text(NOW_S)
    judged = observation(spec, pods=pods[:4], recent=None, previous=first, window=idle)
    kept = decide(judged, spec, settings=SETTINGS, now_s=NOW_S + 5)
    assert (kept.status or first)["pressure"] == first["pressure"], "not seen yet is no reason to forget"
    swamped = window(pods_reporting=4, pods_expected=4, **SWAMPED)
    busy = observation(spec, pods=pods[:4], recent=swamped, previous=first)
    assert "enough" not in decide(busy, spec, settings=SETTINGS, now_s=NOW_S).status["pressure"]
