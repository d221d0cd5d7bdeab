"""No data is not zero: whatever is missing, nothing is taken away."""

from dataclasses import replace

import pytest
from operator_builders import NOW_S, SETTINGS, deployment, observation, pod, service, window

from headrace_operator.api.vocabulary import Action, Reason
from headrace_operator.decide.assess import assess
from headrace_operator.decide.controller import decide
from headrace_operator.decide.modes import mandate
from headrace_operator.decide.rules import choose

SLACK_FOR_A_WHILE = {
    "desiredReplicas": 2,
    "pressure": {"enough": [{"replicas": 1, "since": "2027-01-15T07:58:00Z"}]},
}
IDLE = window(running_per_pod=1.0, running_peak=2.0, pods_reporting=2, pods_expected=2)
TWO_PODS = (pod(0), pod(1))


def decision(recent, *, previous=SLACK_FOR_A_WHILE, **seen):
    spec = service()
    known = {"pods": TWO_PODS, **seen}
    facts = observation(spec, recent=recent, previous=previous, **known)
    return choose(assess(facts, spec, scrape_interval_s=2.0, now_s=NOW_S), mandate(spec).considered)


def test_the_same_service_with_its_data_scales_down():
    assert decision(IDLE).action is Action.SCALE_DOWN


@pytest.mark.parametrize(
    ("reason", "recent"),
    [
        (Reason.INSUFFICIENT_DATA, None),
        (Reason.METRICS_STALE, replace(IDLE, end_s=NOW_S - 11)),
        (Reason.METRICS_STALE, replace(IDLE, pods_reporting=0)),
        (Reason.INSUFFICIENT_DATA, replace(IDLE, longest_gap_s=12.0)),
        (Reason.INSUFFICIENT_DATA, replace(IDLE, start_s=NOW_S - 8)),
        (Reason.INSUFFICIENT_DATA, replace(IDLE, arrivals=None)),
        (Reason.INSUFFICIENT_DATA, replace(IDLE, running_per_pod=None)),
        (Reason.INSUFFICIENT_DATA, replace(IDLE, pods_reporting=1)),
    ],
)
def test_without_it_the_service_holds_and_says_why(reason, recent):
    held = decision(recent)
    assert held.action is Action.HOLD
    assert reason in {held.reason, *(rejection.word for rejection in held.rejections)}


def test_a_new_operator_takes_nothing_away_before_it_has_watched_for_a_window():
    held = decision(IDLE, observing_since_s=NOW_S - 59)
    assert held.action is Action.HOLD
    assert decision(IDLE, observing_since_s=NOW_S - 60).action is Action.SCALE_DOWN


def test_nothing_is_decided_while_pods_are_replaced():
    rolling = {"Deployment": deployment(2, spec=service(), updated=1)}
    assert decision(IDLE, children=rolling).reason is Reason.ROLLOUT_IN_PROGRESS


def test_a_metric_that_engines_do_not_have_is_named_in_a_condition():
    spec = service()
    facts = observation(spec, recent=replace(IDLE, arrivals=None), pods=TWO_PODS)
    plan = decide(facts, spec, settings=SETTINGS, now_s=NOW_S)
    conditions = {found["type"]: found for found in plan.status["conditions"]}
    assert conditions["MetricsAvailable"]["reason"] == "MetricsMissing"
    assert "arrivals" in conditions["MetricsAvailable"]["message"]


def test_when_no_scrape_succeeds_any_more_the_metrics_are_stale():
    spec = service()
    facts = observation(spec, window=replace(IDLE, end_s=NOW_S - 30), pods=TWO_PODS)
    plan = decide(facts, spec, settings=SETTINGS, now_s=NOW_S)
    conditions = {found["type"]: found for found in plan.status["conditions"]}
    assert conditions["MetricsAvailable"]["reason"] == "MetricsStale"
    assert plan.status["decision"]["reason"] == "MetricsStale"


def test_some_pods_that_do_not_report_degrade_the_view_and_the_rest_still_decide():
    spec = service()
    overloaded = window(queue_s=0.9, itl_s=0.19, running_per_pod=16.0, pods_reporting=1, pods_expected=2)
    previous = {"desiredReplicas": 2, "pressure": {"overloadedSince": "2027-01-15T07:59:00Z"}}
    facts = observation(spec, recent=overloaded, pods=TWO_PODS, previous=previous)
    plan = decide(facts, spec, settings=SETTINGS, now_s=NOW_S)
    conditions = {found["type"]: found for found in plan.status["conditions"]}
    assert conditions["MetricsAvailable"]["reason"] == "Degraded"
    assert plan.status["desiredReplicas"] == 3
