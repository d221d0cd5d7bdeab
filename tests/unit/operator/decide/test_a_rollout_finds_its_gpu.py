"""A new spec where every GPU is taken: one pod goes before another comes, and status says why."""

import pytest
from operator_builders import NOW_S, SETTINGS, deployment, observation, pod, service

from headrace_operator.api.units import time_text
from headrace_operator.decide.controller import decide

GPU = service({"engine": {"gpu": {"count": 1}, "startupTimeout": "10m"}})
NO_GPU = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
SURGE = {"maxUnavailable": 0, "maxSurge": 1}
ONE_BY_ONE = {"maxUnavailable": 1, "maxSurge": 0}


def pending(message=NO_GPU):
    return pod(9, ready=False, trouble="Unschedulable", trouble_message=message)


def lacking(for_s):
    """What the status says of a rollout that has found no GPU for so long."""
    since = {"since": time_text(NOW_S - 900), "lacksGPUSince": time_text(NOW_S - for_s)}
    return {"rollout": {"template": "abc", **since}}


def rolling(updated=1, replicas=2, strategy=SURGE, **status):
    live = deployment(2, spec=GPU, updated=updated)
    live["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": strategy}
    live["status"] |= {"replicas": replicas, **status}
    return live


def plan(pods, live, spec=GPU, lacks_for_s=None):
    previous = None if lacks_for_s is None else lacking(lacks_for_s)
    seen = observation(spec, pods=pods, children={"Deployment": live}, previous=previous)
    return decide(seen, spec, settings=SETTINGS, now_s=NOW_S)


def strategy(found):
    [made] = [manifest for manifest in found.objects if manifest["kind"] == "Deployment"]
    return made["spec"]["strategy"]["rollingUpdate"]


def condition(found, kind):
    return next(item for item in found.status["conditions"] if item["type"] == kind)


@pytest.mark.parametrize(
    ("for_s", "message", "expected"),
    [
        (59, NO_GPU, SURGE),
        (60, NO_GPU, ONE_BY_ONE),
        (600, "0/2 nodes are available: 2 Insufficient cpu.", SURGE),
        (600, "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.", SURGE),
    ],
    ids=["a GPU may come free", "none came", "no CPU", "no such node"],
)
def test_a_surge_that_finds_no_gpu_is_given_up_after_a_while(for_s, message, expected):
    pods = (pod(0), pod(1), pending(message))
    found = plan(pods, rolling(updated=1, replicas=3), lacks_for_s=for_s)
    assert strategy(found) == expected


@pytest.mark.parametrize(
    ("resource", "expected"),
    [("requests.nvidia.com/gpu=1", ONE_BY_ONE), ("requests.cpu=2", SURGE)],
    ids=["of GPUs", "of something else"],
)
def test_a_surge_that_a_quota_refuses_would_be_refused_for_ever(resource, expected):
    """No pod of it is ever made: the Deployment alone tells."""
    message = f'pods "chat-engine-x" is forbidden: exceeded quota: gpus, requested: {resource}'
    refused = {"type": "ReplicaFailure", "status": "True", "message": message}
    found = plan((pod(0), pod(1)), rolling(updated=0, conditions=[refused]), lacks_for_s=60)
    assert strategy(found) == expected
    assert "exceeded quota" in condition(found, "Progressing")["message"]


def test_a_clock_that_was_ahead_puts_nothing_off():
    pods = (pod(0), pod(1), pending())
    found = plan(pods, rolling(updated=1, replicas=3), lacks_for_s=-3600)
    assert found.status["rollout"]["lacksGPUSince"] == time_text(NOW_S)


def test_the_while_begins_when_the_lack_is_seen():
    found = plan((pod(0), pod(1), pending()), rolling(updated=1, replicas=3))
    assert strategy(found) == SURGE
    assert found.status["rollout"]["lacksGPUSince"] == time_text(NOW_S)


def test_a_gpu_that_a_leaving_pod_is_about_to_free_is_waited_for():
    """It drains for as long as its streams last: taking another pod away meanwhile would gain nothing."""
    pods = (pod(0), pod(1), pod(2, deleting=True), pending())
    found = plan(pods, rolling(updated=1, replicas=3), lacks_for_s=600)
    assert strategy(found) == SURGE
    assert "lacksGPUSince" not in found.status["rollout"]
    assert condition(found, "Progressing")["reason"] == "RolloutInProgress"


def test_one_by_one_goes_on_until_the_rollout_is_over():
    under_way = plan((pod(0), pod(1)), rolling(updated=1, strategy=ONE_BY_ONE))
    assert strategy(under_way) == ONE_BY_ONE
    over = plan((pod(0), pod(1)), rolling(updated=2, strategy=ONE_BY_ONE))
    assert strategy(over) == SURGE


def test_a_service_without_gpus_always_surges():
    cpu = service()
    found = plan((pod(0), pod(1), pending()), rolling(updated=1, replicas=3), spec=cpu, lacks_for_s=600)
    assert strategy(found) == SURGE


def test_a_scale_up_that_finds_no_gpu_is_no_rollout():
    found = plan((pod(0), pending()), rolling(updated=2), lacks_for_s=600)
    assert strategy(found) == SURGE


def test_while_it_waits_and_after_its_deadline_status_says_what_lacks():
    pods = (pod(0), pod(1), pending())
    waiting = condition(plan(pods, rolling(updated=1, replicas=3)), "Progressing")
    assert (waiting["status"], waiting["reason"]) == ("True", "RolloutBlocked")
    assert "InsufficientGPU" in waiting["message"]
    late = {"conditions": [{"type": "Progressing", "status": "False", "message": "timed out progressing"}]}
    blocked = plan(pods, rolling(updated=1, replicas=3, **late))
    found = condition(blocked, "Progressing")
    assert (found["status"], found["reason"]) == ("False", "RolloutBlocked")
    assert found["message"].startswith("InsufficientGPU: pod ")
    assert NO_GPU in found["message"]
    assert ("Warning", "RolloutBlocked") in [(event.type, event.reason) for event in blocked.events]
    assert condition(blocked, "Ready")["status"] == "True"
