"""How fewer pods come about: the least busy are emptied, then removed; nothing is cut off."""

import pytest
from operator_builders import NOW_S, deployment, observation, pod, service

from headrace_operator.api.spec import Limits
from headrace_operator.decide.drain import SETTLE_S, steps
from headrace_operator.decide.observation import Scrape
from headrace_operator.decide.supply import supply


def next_steps(pods, *, desired, deployed=None, updated=None):
    spec = service()
    children = {"Deployment": deployment(deployed or len(pods), spec=spec, updated=updated)}
    seen = supply(observation(spec, pods=pods, children=children), spec, now_s=NOW_S)
    return steps(spec, seen, desired=desired, now_s=NOW_S)


def serving(number, in_flight):
    return pod(number, scrape=Scrape(NOW_S, Limits(16, 512), in_flight, draining=False))


def draining(number, in_flight, *, since_s=NOW_S - 30, at_s=NOW_S, says=True):
    scrape = Scrape(at_s, Limits(16, 512), in_flight, draining=says)
    return pod(number, ready=False, phase="Running", draining_since_s=since_s, scrape=scrape)


def test_more_pods_come_at_once():
    assert next_steps([serving(0, 5)], desired=3).deployment_replicas == 3


def test_the_least_busy_is_marked_and_told_while_the_deployment_stays():
    first = next_steps([serving(0, 5), serving(1, 2)], desired=1)
    assert first.deployment_replicas == 2
    [mark] = first.annotate
    assert mark.pod_name == serving(1, 2).name
    assert mark.annotations["controller.kubernetes.io/pod-deletion-cost"] == "-1000"
    assert mark.annotations["headrace.dev/draining"] == "2027-01-15T08:00:00Z"
    assert [call.pod_name for call in first.drain] == [mark.pod_name]
    assert first.events[0].reason == "DrainStarted"


def test_a_pod_whose_load_is_unknown_is_not_the_victim():
    first = next_steps([pod(0, scrape=None), serving(1, 15)], desired=1)
    assert first.annotate[0].pod_name == serving(1, 15).name


def test_the_deployment_stays_while_streams_run():
    waiting = next_steps([serving(0, 5), draining(1, 2)], desired=1)
    assert waiting.deployment_replicas == 2
    assert waiting.annotate == waiting.drain == ()


def test_the_deployment_shrinks_when_the_pod_is_empty():
    done = next_steps([serving(0, 5), draining(1, 0)], desired=1)
    assert done.deployment_replicas == 1
    assert done.events[0].reason == "DrainCompleted"


def test_a_removed_pod_that_is_still_to_be_seen_is_not_replaced():
    """The Deployment is lowered; the ReplicaSet has not deleted the pod, or nobody has heard of it yet."""
    again = next_steps([serving(0, 5), draining(1, 0)], desired=1, deployed=1)
    assert again.deployment_replicas == 1
    assert again.annotate == again.drain == again.events == ()


def test_a_removed_pod_that_is_gone_before_the_deployment_is_seen_lowered_costs_no_other():
    again = next_steps([serving(0, 5)], desired=1, deployed=2)
    assert again.deployment_replicas == 1
    assert again.annotate == again.drain == ()


def test_an_empty_pod_is_not_believed_before_late_requests_have_arrived():
    early = draining(1, 0, since_s=NOW_S - 2)
    assert next_steps([serving(0, 5), early], desired=1).deployment_replicas == 2
    old_scrape = draining(1, 0, at_s=NOW_S - 30 + SETTLE_S - 1)
    assert next_steps([serving(0, 5), old_scrape], desired=1).deployment_replicas == 2


def test_after_the_drain_timeout_it_goes_and_the_event_says_what_was_lost():
    late = draining(1, 2, since_s=NOW_S - 66)
    gone = next_steps([serving(0, 5), late], desired=1)
    assert gone.deployment_replicas == 1
    assert (gone.events[0].type, gone.events[0].reason) == ("Warning", "DrainTimedOut")
    assert "2 requests still in flight" in gone.events[0].message


def test_an_engine_that_restarted_while_draining_is_told_again():
    again = next_steps([serving(0, 5), draining(1, 0, says=False)], desired=1)
    assert again.deployment_replicas == 2
    assert len(again.drain) == 1


def test_demand_that_returns_during_a_drain_gets_a_new_pod_beside_the_leaving_one():
    back = next_steps([serving(0, 5), draining(1, 2)], desired=2)
    assert back.deployment_replicas == 3


def test_a_drained_pod_waits_for_pending_ones_which_would_be_removed_in_its_place():
    pods = [serving(0, 5), draining(1, 0), pod(2, ready=False)]
    assert next_steps(pods, desired=2, deployed=3).deployment_replicas == 3


@pytest.mark.parametrize("trouble", [None, "Unschedulable"])
def test_a_pod_that_serves_nothing_yet_goes_without_a_drain(trouble):
    pods = [serving(0, 5), pod(1, ready=False, trouble=trouble)]
    gone = next_steps(pods, desired=1)
    assert gone.deployment_replicas == 1
    assert gone.annotate == ()


def test_an_evicted_pod_is_not_counted_so_that_no_serving_one_is_removed_for_it():
    """Its ReplicaSet does not count it either: lowering would take one that serves, undrained."""
    evicted = pod(2, ready=False, phase="Failed", trouble="Evicted")
    first = next_steps([serving(0, 5), serving(1, 2), evicted], desired=1, deployed=2)
    assert first.deployment_replicas == 2
    assert [mark.pod_name for mark in first.annotate] == [serving(1, 2).name]


def test_during_a_rollout_nothing_is_taken_away():
    assert next_steps([serving(0, 5), serving(1, 0)], desired=1, updated=1).deployment_replicas == 2


def test_to_zero_every_pod_is_emptied():
    first = next_steps([serving(0, 5), serving(1, 0)], desired=0)
    assert len(first.annotate) == 2
    assert first.deployment_replicas == 2


def test_none_at_all_waits_for_no_rollout():
    """One that is stuck would hold the pods, and their GPUs, for ever."""
    blocked = [serving(0, 5), pod(1, ready=False, trouble="ImagePullBackOff")]
    assert next_steps(blocked, desired=0, deployed=2, updated=1).deployment_replicas == 0
