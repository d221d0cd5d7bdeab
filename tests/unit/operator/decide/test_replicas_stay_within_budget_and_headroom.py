"""How many GPUs a service may hold, and how much must stay free before one is given back."""

import pytest
from operator_builders import NOW_S, SETTINGS, deployment, observation, pod, service, window

from headrace_operator.api.units import time_text
from headrace_operator.decide.controller import decide

LASTED = {
    "overloadedSince": time_text(NOW_S - 600),
    "enough": [{"replicas": 1, "since": time_text(NOW_S - 3600)}],
}


def decided(spec, replicas, **seen):
    pods = [pod(number) for number in range(replicas)]
    recent = window(pods_reporting=replicas, pods_expected=replicas, **seen)
    previous = {"desiredReplicas": replicas, "pressure": LASTED}
    facts = observation(spec, pods=pods, recent=recent, previous=previous)
    return decide(facts, spec, settings=SETTINGS, now_s=NOW_S).status


def on_gpus(budget):
    gpus = {"engine": {"gpu": {"count": 1}}, "scaling": {"maxReplicas": 8, "gpuBudget": budget}}
    return service({**gpus, "tuning": {"mode": "Off"}})


def test_a_service_grows_as_far_as_its_gpus_go_and_says_what_stopped_it():
    overloaded = {"queue_s": 3.0, "ttft_s": 4.0}
    assert decided(on_gpus(3), 2, **overloaded)["desiredReplicas"] == 3
    held = decided(on_gpus(2), 2, **overloaded)
    assert (held["decision"]["action"], held["decision"]["reason"]) == ("Hold", "GPUBudget")
    assert "scaling.gpuBudget" in held["decision"]["message"]


def test_a_replica_that_a_quota_refuses_is_asked_for_once_and_told():
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    spec = on_gpus(8)
    live = deployment(3, spec=spec)
    live["status"] |= {"replicas": 2, "updatedReplicas": 2, "conditions": [refused]}
    facts = observation(
        spec,
        pods=[pod(0), pod(1)],
        recent=window(pods_reporting=2, pods_expected=2, queue_s=3.0, ttft_s=4.0),
        previous={"desiredReplicas": 3, "pressure": LASTED},
        children={"Deployment": live},
    )
    status = decide(facts, spec, settings=SETTINGS, now_s=NOW_S).status
    assert (status["desiredReplicas"], status["decision"]["reason"]) == (3, "ScalingInProgress")
    [progressing] = [found for found in status["conditions"] if found["type"] == "Progressing"]
    assert "exceeded quota" in progressing["message"]


def test_a_budget_that_is_cut_takes_replicas_away_by_draining():
    assert decided(on_gpus(2), 4)["desiredReplicas"] == 2


@pytest.mark.parametrize(("headroom", "replicas"), [("0.3", 1), ("0.6", 2)])
def test_a_replica_goes_only_where_the_headroom_is_left_on_the_others(headroom, replicas):
    spec = service({"scaling": {"headroom": headroom}, "slo": {"itl": None}, "tuning": {"mode": "Off"}})
    status = decided(spec, 2, running_per_pod=4.0, running_peak=4.0)
    assert status["desiredReplicas"] == replicas, "8 of 16 sequences would run on the one that is left"
