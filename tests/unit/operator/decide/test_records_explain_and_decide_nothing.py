"""What engines recorded of requests and steps: in the status and its inputs, in no decision and no write."""

import dataclasses

import pytest
from operator_builders import NOW_S, SETTINGS, observation, service, window

from headrace_operator.api.status_document import tells_news
from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Mix, StepWork

RECORDED = {
    "mix": Mix(NOW_S - 3.0, 40, 2000.0, 4000.0, 300.0, 900.0, 0.25),
    "step_work": StepWork(NOW_S - 1.0, 900, 0.04, 0.9, 512.0),
}
CALM, SLOW_STEPS, LONG_QUEUE = (
    {},
    {"itl_s": 0.9, "budget_used": 1.0},
    {"queue_s": 5.0, "running_per_pod": 16.0},
)


def plan(load, **recorded):
    spec = service()
    found = window(**load, **recorded)
    return decide(observation(spec, window=found, recent=found), spec, settings=SETTINGS, now_s=NOW_S)


def without_inputs(decision):
    return {name: value for name, value in decision.items() if name != "inputs"}


@pytest.mark.parametrize("load", [CALM, SLOW_STEPS, LONG_QUEUE], ids=["calm", "slow steps", "a long queue"])
def test_the_plan_is_the_same_with_records_and_without(load):
    told, untold = plan(load, **RECORDED), plan(load)
    assert dataclasses.replace(told, status=None) == dataclasses.replace(untold, status=None)
    assert without_inputs(told.status["decision"]) == without_inputs(untold.status["decision"])
    inputs = {found["name"]: found["value"] for found in told.status["decision"]["inputs"]}
    assert inputs["stepTimeP95"] == "900ms"


def test_a_status_that_differs_in_records_alone_waits_for_its_turn():
    told, untold = plan(CALM, **RECORDED).status, plan(CALM).status
    assert told["observed"]["mix"]["promptTokensP95"] == 4000
    assert not tells_news(untold, told, refresh_s=15.0, now_s=NOW_S + 14.0)
    assert tells_news(untold, told, refresh_s=15.0, now_s=NOW_S + 15.0)
