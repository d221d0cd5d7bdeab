"""Condition Conflict: another autoscaler on what Headrace scales. The two never undo each other for ever."""

import pytest
from operator_builders import NOW_S, SETTINGS, deployment, observation, pod, service, window

from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Autoscaler

OVERLOAD = {"queue_s": 0.9, "itl_s": 0.19, "running_per_pod": 16.0, "running_peak": 16.0}
LASTED = {"desiredReplicas": 1, "pressure": {"overloadedSince": "2027-01-15T07:59:00Z"}}
ON_DEPLOYMENT = (Autoscaler("HorizontalPodAutoscaler web", is_of_deployment=True),)
ON_SERVICE = (Autoscaler("HorizontalPodAutoscaler web", is_of_deployment=False),)


def plan(spec=None, *, previous=LASTED, deployed=1, later_s=0.0, seen=OVERLOAD, **facts):
    wanted = service({"tuning": {"mode": "Off"}, **(spec or {})})
    pods = [pod(number) for number in range(deployed)]
    recent = window(now_s=NOW_S + later_s, pods_reporting=deployed, pods_expected=deployed, **seen)
    known = observation(wanted, recent=recent, previous=previous, pods=pods, **facts)
    return decide(known, wanted, settings=SETTINGS, now_s=NOW_S + later_s)


def condition(found, kind="Conflict"):
    told = next(item for item in found.status["conditions"] if item["type"] == kind)
    return told["status"], told["reason"], told["message"]


def asked_of_deployment(found):
    return [m["spec"]["replicas"] for m in found.objects if m["kind"] == "Deployment"]


def test_nobody_else_is_no_conflict_and_who_may_not_look_does_not_say_so():
    assert condition(plan())[:2] == ("False", "NoConflict")
    blind = plan(autoscalers=None)
    assert condition(blind)[:2] == ("Unknown", "Forbidden")
    assert blind.status["desiredReplicas"] == 2, "it is decided all the same"


@pytest.mark.parametrize("mode", ["Auto", "Recommend", "Fixed", "External"])
def test_an_autoscaler_on_the_deployment_is_left_its_number_in_any_mode(mode):
    found = plan({"scaling": {"mode": mode}}, autoscalers=ON_DEPLOYMENT, deployed=3)
    status, reason, message = condition(found)
    assert (status, reason) == ("True", "AutoscalerOnDeployment")
    assert "HorizontalPodAutoscaler web scales Deployment chat-engine" in message
    assert asked_of_deployment(found) in ([], [3]), "no fight"
    assert found.annotate == found.drain == ()
    assert found.status["desiredReplicas"] == 3
    assert "history" not in found.status
    assert found.status["decision"]["reason"] == "Conflict"
    assert condition(found, "ScalingActive")[:2] == ("False", "Conflict")
    assert [event.type for event in found.events if event.reason == "Conflict"] == ["Warning"]
    again = plan({"scaling": {"mode": mode}}, autoscalers=ON_DEPLOYMENT, deployed=4, previous=found.status)
    assert [event for event in again.events if event.reason == "Conflict"] == [], "it is told once"
    assert again.status["desiredReplicas"] == 4


def test_a_pod_that_was_being_emptied_when_it_came_ends_and_goes():
    """It takes no requests any more: left in the number it would be one that nobody has."""
    spec = service({"tuning": {"mode": "Off"}})
    emptied = pod(1, draining_since_s=NOW_S - 900)
    live = {"Deployment": deployment(2, spec=spec)}
    facts = observation(spec, pods=[pod(0), emptied], children=live, autoscalers=ON_DEPLOYMENT)
    found = decide(facts, spec, settings=SETTINGS, now_s=NOW_S)
    assert found.status["desiredReplicas"] == 1
    assert asked_of_deployment(found) == [1]


def test_when_it_is_gone_decisions_go_on_from_where_it_left_the_service():
    ruled = plan(autoscalers=ON_DEPLOYMENT, deployed=3).status
    free = plan(deployed=3, previous=ruled, later_s=30)
    assert condition(free)[:2] == ("False", "NoConflict")
    assert free.status["desiredReplicas"] >= 3, "nothing is torn down because it went"


@pytest.mark.parametrize(
    ("mode", "status"), [("Auto", "True"), ("Recommend", "True"), ("Fixed", "False"), ("External", "False")]
)
def test_an_autoscaler_on_the_service_is_a_conflict_where_headrace_decides_too(mode, status):
    found = plan({"scaling": {"mode": mode}}, autoscalers=ON_SERVICE)
    assert condition(found)[0] == status
    assert found.status["desiredReplicas"] == 1, "two that decide: none does"
    if status == "True":
        assert "scaling.mode to External" in condition(found)[2]


def test_limits_are_tuned_on():
    slow = {"itl_s": 0.3, "prompt_tokens": 10, "running_per_pod": 8.0, "running_peak": 8.0}
    found = plan({"tuning": {"mode": "Auto"}}, autoscalers=ON_DEPLOYMENT, seen=slow)
    assert found.status["decision"]["action"] == "LowerSeqLimit"


def edited(replicas):
    live = deployment(replicas, spec=service({"tuning": {"mode": "Off"}}))
    return {"children": {"Deployment": live}, "scaled_by": "keda-like"}


def test_a_hand_on_the_deployment_s_scale_is_set_back_once_and_then_left_alone_for_a_while():
    first = plan(deployed=1, seen={}, **edited(3))
    assert condition(first)[:2] == ("True", "ScaledByAnother")
    assert "keda-like" in condition(first)[2]
    assert asked_of_deployment(first) == [1]
    quiet = plan(deployed=1, seen={}, previous=first.status, later_s=60)
    assert condition(quiet)[1] == "ScaledByAnother", "it is remembered"
    again = plan(deployed=1, seen={}, previous=quiet.status, later_s=120, **edited(4))
    assert condition(again)[1] == "ScaledAgain"
    assert asked_of_deployment(again) == [4]
    assert "Conflict" in [event.reason for event in first.events]
    assert "ScaledAgain" in [event.reason for event in again.events]
    held = plan(deployed=1, seen={}, previous=again.status, later_s=180, children=edited(5)["children"])
    assert asked_of_deployment(held) == [5], "as long as it goes on"
    over = plan(deployed=1, seen={}, previous=held.status, later_s=700, children=edited(5)["children"])
    assert condition(over)[:2] == ("False", "NoConflict")


@pytest.mark.parametrize("mode", ["Auto", "Fixed"])
@pytest.mark.parametrize("every_s", [5, 30, 60])
def test_who_never_stops_is_set_back_twice_in_ten_minutes_however_fast_it_is(mode, every_s):
    """At each look, too: a number that is always another's again must not be fought for at each."""
    status, live, is_anothers, set_back = {"desiredReplicas": 1}, 1, False, 0
    for later_s in range(0, 7200, 5):
        wanted = 3 + later_s // every_s % 2
        if later_s % every_s == 0 and live != wanted:
            live, is_anothers = wanted, True
        facts = edited(live) | ({} if is_anothers else {"scaled_by": None})
        found = plan({"scaling": {"mode": mode}}, seen={}, previous=status, later_s=later_s, **facts)
        status = found.status or status
        for asked in asked_of_deployment(found):
            set_back += asked != live
            live, is_anothers = asked, False
    assert set_back <= 2 * 7200 / 600 + 1
