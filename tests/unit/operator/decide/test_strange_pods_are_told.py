"""Pods that lie and pods that are somebody else's: told once, and nothing is taken away on their word."""

from operator_builders import NOW_S, SETTINGS, observation, pod, service, window

from headrace_operator.api.spec import Limits
from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Scrape
from headrace_operator.decide.trust import sees_all_pods


def plan(**seen):
    return decide(observation(service(), **seen), service(), settings=SETTINGS, now_s=NOW_S)


def condition(found, kind):
    return next(item for item in found.status["conditions"] if item["type"] == kind)


def warnings(found):
    return [event.reason for event in found.events if event.type == "Warning"]


LIAR = pod(1, scrape=Scrape(NOW_S, Limits(16, 512), 3, draining=False, is_implausible=True))
HALF = {"pods_reporting": 1, "pods_expected": 2}


def test_a_pod_with_impossible_values_is_named_and_told_once():
    told = plan(pods=(pod(0), LIAR), recent=window(**HALF), previous={"desiredReplicas": 2})
    found = condition(told, "MetricsAvailable")
    assert (found["status"], found["reason"]) == ("True", "PodReportsImplausible")
    assert LIAR.name in found["message"]
    assert warnings(told) == ["PodReportsImplausible"]
    again = plan(pods=(pod(0), LIAR), recent=window(**HALF), previous=told.status)
    assert again.events == ()


def test_nothing_is_taken_away_while_a_pod_cannot_be_believed():
    facts = observation(service(), pods=(pod(0), LIAR), recent=window(**HALF))
    assert not sees_all_pods(facts, service(), now_s=NOW_S)


def test_a_service_whose_only_pod_cannot_be_believed_has_no_metrics():
    told = plan(pods=(LIAR,), recent=window(pods_reporting=0))
    found = condition(told, "MetricsAvailable")
    assert (found["status"], found["reason"]) == ("False", "MetricsStale")
    assert "believed" in found["message"]


def test_a_sample_of_a_time_to_come_is_not_fresh():
    told = plan(recent=window(now_s=NOW_S + 3600))
    assert condition(told, "MetricsAvailable")["reason"] == "MetricsStale"
    assert told.status["decision"]["action"] == "Hold"


def test_a_foreign_pod_behind_the_service_is_named_and_told_once():
    before = plan(recent=window()).status
    told = plan(recent=window(), foreign_pods=("intruder",), previous=before)
    found = condition(told, "Ready")
    assert (found["status"], found["reason"]) == ("True", "ForeignEndpoint")
    assert "intruder" in found["message"]
    assert warnings(told) == ["ForeignEndpoint"]
    again = plan(recent=window(), foreign_pods=("intruder",), previous=told.status)
    assert again.events == ()
    gone = plan(recent=window(), previous=told.status)
    assert condition(gone, "Ready")["reason"] == "Serving"
    assert gone.events == ()
