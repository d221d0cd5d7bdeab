"""The target for the whole of a request: what misses it, what is done, and when nothing would help."""

from operator_builders import NOW_S, SETTINGS, histogram, observation, service, window

from headrace_operator.api.units import time_text
from headrace_operator.decide.controller import decide

EDGES = (0.3, 1.0, 5.0, 10.0, 30.0, 60.0)


def decided(*, e2e_s, slo=None, **seen):
    spec = service({"slo": {"ttft": "1s", "itl": "200ms", **({"e2e": "10s"} if slo is None else slo)}})
    recent = window(e2e_s=histogram([e2e_s] * 100, EDGES), **seen)
    previous = {
        "desiredReplicas": 1,
        "pressure": {"overloadedSince": time_text(NOW_S - 600)},
        "slo": {"key": "ttft=1,itl=0.2", "since": time_text(NOW_S - 7200)},
    }
    return decide(
        observation(spec, recent=recent, previous=previous), spec, settings=SETTINGS, now_s=NOW_S
    ).status


def test_a_target_that_is_missed_adds_a_replica_and_is_the_reason():
    status = decided(e2e_s=40.0)
    assert (status["decision"]["action"], status["decision"]["reason"]) == ("ScaleUp", "E2EOverTarget")
    assert status["slo"]["bindingTarget"] == "e2e"
    assert {"name": "e2eP95", "value": "58s", "target": "10s"} in status["decision"]["inputs"]


def test_it_counts_in_the_attainment_though_engines_do_not_count_it():
    assert decided(e2e_s=40.0)["observed"]["attainment"] == "0.000"
    assert decided(e2e_s=2.0)["observed"]["attainment"] == "1.000"


def test_without_the_target_it_is_shown_and_moves_nothing():
    status = decided(e2e_s=40.0, slo={})
    assert status["observed"]["e2eP95"] == "58s"
    assert status["decision"]["action"] == "Hold"


def test_a_request_that_runs_alone_and_takes_longer_is_no_reason_for_replicas():
    status = decided(e2e_s=40.0, running_per_pod=1.0, running_peak=1.0)
    assert (status["decision"]["action"], status["decision"]["reason"]) == ("Hold", "SLOInfeasible")
