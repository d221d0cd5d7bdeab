"""Condition SLOFeasible: told by a request that runs alone, and not unsaid by load."""

from dataclasses import fields

import pytest
from operator_builders import NOW_S, SETTINGS, histogram, observation, service, window

from headrace_operator.api.spec import Slo
from headrace_operator.api.vocabulary import Action
from headrace_operator.decide.controller import decide

ALONE, CROWDED = {"running_per_pod": 1.0, "running_peak": 1.0}, {"running_per_pod": 12.0}
SLO = {"ttft": "1s", "itl": "200ms", "e2e": "1m"}


def plan(previous=None, slo=SLO, **seen):
    spec = service({"slo": slo})
    recent = window(span_s=30, **seen) if seen else None
    return decide(observation(spec, recent=recent, previous=previous), spec, settings=SETTINGS, now_s=NOW_S)


def feasible(found):
    told = next(item for item in found.status["conditions"] if item["type"] == "SLOFeasible")
    return told["status"], told["reason"]


@pytest.mark.parametrize(
    ("slow", "reason"), [({"ttft_s": 3.0}, "InfeasibleTTFT"), ({"itl_s": 0.5}, "InfeasibleITL")]
)
def test_a_request_that_runs_alone_and_misses_its_target_tells(slow, reason):
    found = plan(**ALONE, **slow)
    assert feasible(found) == ("False", reason)
    assert ("Warning", "SLOInfeasible") in [(event.type, event.reason) for event in found.events]
    assert found.status["decision"]["action"] != Action.SCALE_UP


def test_one_that_meets_it_tells_too():
    assert feasible(plan(**ALONE, ttft_s=0.2)) == ("True", "Feasible")


def test_under_load_or_without_data_nothing_can_be_told():
    assert feasible(plan(**CROWDED, ttft_s=3.0)) == ("Unknown", "InsufficientData")
    assert feasible(plan()) == ("Unknown", "InsufficientData")


def test_what_was_told_stands_until_the_targets_change():
    told = plan(**ALONE, ttft_s=3.0).status
    crowded = plan(told, **CROWDED, ttft_s=9.0)
    assert feasible(crowded) == ("False", "InfeasibleTTFT")
    assert "SLOInfeasible" not in [event.reason for event in crowded.events]
    assert feasible(plan(told, slo={**SLO, "ttft": "10s"}, **CROWDED, ttft_s=9.0))[0] == "Unknown"
    assert feasible(plan(told, **ALONE, ttft_s=0.2)) == ("True", "Feasible")


EDITS = {
    "attainment_ratio": {"attainment": "0.9"},
    "ttft_s": {"ttft": "10s"},
    "itl_s": {"itl": "1s"},
    "e2e_s": {"e2e": "5m"},
    "queue_deadline_s": {"queueDeadline": "9s"},
    "window_s": {"window": "2m"},
}


@pytest.mark.parametrize("field", [field.name for field in fields(Slo)])
def test_whatever_of_the_slo_changes_voids_what_was_told_of_it(field):
    told = plan(**ALONE, ttft_s=3.0).status
    assert feasible(plan(told, slo={**SLO, **EDITS[field]}, **CROWDED, ttft_s=9.0))[0] == "Unknown"


def test_long_answers_that_may_take_longer_now_are_not_called_infeasible():
    slow = {**ALONE, "ttft_s": 0.2, "e2e_s": histogram([45.0] * 50)}
    told = plan(slo={**SLO, "e2e": "20s"}, **slow)
    assert feasible(told) == ("False", "InfeasibleE2E")
    assert feasible(plan(told.status, slo={**SLO, "e2e": "2m"}, **CROWDED)) == ("Unknown", "InsufficientData")
