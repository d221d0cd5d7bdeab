"""Auto acts, Recommend advises, Fixed and a pin obey, External follows, a pause freezes."""

import pytest
from operator_builders import NOW_S, SETTINGS, observation, pod, service, window

from headrace_operator.decide.controller import decide

OVERLOAD = {"queue_s": 0.9, "itl_s": 0.19, "running_per_pod": 16.0, "running_peak": 16.0}
LASTED = {"desiredReplicas": 1, "pressure": {"overloadedSince": "2027-01-15T07:59:00Z"}}
SLOW = {"itl_s": 0.3, "prompt_tokens": 10, "running_per_pod": 8.0, "running_peak": 8.0}


def plan(spec, recent, *, previous=LASTED, pods=None):
    facts = observation(spec, recent=recent, previous=previous, pods=pods)
    return decide(facts, spec, settings=SETTINGS, now_s=NOW_S)


@pytest.mark.parametrize(
    ("changes", "desired", "reason"),
    [
        ({}, 2, "QueueTimeOverBudget"),
        ({"scaling": {"mode": "Recommend"}, "tuning": {"mode": "Recommend"}}, 1, "QueueTimeOverBudget"),
        ({"scaling": {"mode": "Fixed", "minReplicas": 3}, "tuning": {"mode": "Off"}}, 3, "FixedBySpec"),
        ({"scaling": {"mode": "Fixed"}, "replicas": 3}, 3, "PinnedByUser"),
        ({"replicas": 3}, 3, "PinnedByUser"),
        ({"scaling": {"mode": "External"}, "replicas": 4}, 4, "PinnedByUser"),
        ({"paused": True}, 1, "Paused"),
        ({"scaling": {"minReplicas": 2}}, 2, "AtMin"),
    ],
)
def test_who_decides_the_replicas(changes, desired, reason):
    status = plan(service(changes), window(**OVERLOAD)).status
    assert (status["desiredReplicas"], status["decision"]["reason"]) == (desired, reason)


def test_a_bound_that_shrinks_takes_effect_by_a_drain():
    pods = (pod(0), pod(1), pod(2))
    spec = service({"scaling": {"maxReplicas": 2}})
    shrunk = plan(spec, window(), previous={"desiredReplicas": 3}, pods=pods)
    assert (shrunk.status["desiredReplicas"], shrunk.status["decision"]["reason"]) == (2, "AtMax")
    assert len(shrunk.drain) == 1


def test_recommend_writes_what_auto_would_do_and_does_nothing():
    advice = plan(
        service({"scaling": {"mode": "Recommend"}, "tuning": {"mode": "Recommend"}}), window(**OVERLOAD)
    )
    assert advice.status["recommendation"]["after"]["replicas"] == 2
    assert advice.status["decision"]["applied"] is False
    assert advice.set_limits == advice.drain == advice.annotate == ()
    assert "history" not in advice.status
    assert [event.reason for event in advice.events if event.reason == "RecommendationChanged"]


def test_advice_is_told_again_only_where_it_is_another():
    """Events are few: one for each look would keep those that matter from being posted."""
    spec = service({"scaling": {"mode": "Recommend"}, "tuning": {"mode": "Recommend"}})
    first = plan(spec, window(**SLOW))
    same = plan(spec, window(**{**SLOW, "running_peak": 6.0}), previous=first.status)
    other = plan(spec, window(**OVERLOAD), previous={**first.status, **LASTED})
    assert same.status["recommendation"]["after"] != first.status["recommendation"]["after"]
    told = [{event.reason for event in found.events} for found in (first, same, other)]
    assert ["RecommendationChanged" in reasons for reasons in told] == [True, False, True]


def test_advice_about_limits_does_not_keep_replicas_from_being_added():
    busy = {**OVERLOAD, "itl_s": 0.05, "running_per_pod": 8.0, "running_peak": 8.0}
    limits = {"activeLimits": {"maxNumSeqs": 8, "maxNumBatchedTokens": 512}}
    mixed = plan(service({"tuning": {"mode": "Recommend"}}), window(**busy), previous={**LASTED, **limits})
    assert mixed.status["recommendation"]["action"] == "RaiseSeqLimit"
    assert mixed.status["decision"]["action"] == "ScaleUp"
    assert mixed.status["activeLimits"]["maxNumSeqs"] == 8


def test_tuning_off_puts_the_limits_back_to_capacity():
    limits = {"activeLimits": {"maxNumSeqs": 8, "maxNumBatchedTokens": 512}}
    off = plan(service({"tuning": {"mode": "Off"}}), window(**SLOW), previous={**LASTED, **limits})
    assert off.status["activeLimits"]["maxNumSeqs"] == 16
    assert off.status["activeLimits"]["source"] == "Spec"


@pytest.mark.parametrize("mode", ["Recommend", "Auto"])
@pytest.mark.parametrize(("source", "expected"), [("Spec", 16), ("Tuned", 8)])
def test_limits_that_were_never_tuned_follow_a_raised_capacity(mode, source, expected):
    limits = {"activeLimits": {"maxNumSeqs": 8, "maxNumBatchedTokens": 512, "source": source}}
    raised = plan(service({"tuning": {"mode": mode}}), window(), previous={**LASTED, **limits})
    assert raised.status["activeLimits"]["maxNumSeqs"] == expected


LOWERED = {
    "id": "1",
    "at": "2027-01-15T07:59:30Z",
    "generation": 1,
    "action": "LowerSeqLimit",
    "reason": "ITLOverTarget",
    "message": "",
    "attainment": "0.90",
    "requestsPerSecond": "5.00",
    "before": {"replicas": 1, "maxNumSeqs": 16, "maxNumBatchedTokens": 512},
    "after": {"replicas": 1, "maxNumSeqs": 12, "maxNumBatchedTokens": 512},
}
LOWERED_BEFORE = {
    "desiredReplicas": 1,
    "activeLimits": {"maxNumSeqs": 12, "maxNumBatchedTokens": 512},
    "slo": {"key": "ttft=1,itl=0.2", "since": "2027-01-15T06:00:00Z"},
    "history": [LOWERED],
}
WORSE = {"queue_s": 0.9, "good": 50, "late": 50, "running_per_pod": 12.0}


def test_a_change_that_did_harm_is_rolled_back():
    back = plan(service(), window(**WORSE), previous=LOWERED_BEFORE)
    assert back.status["activeLimits"]["maxNumSeqs"] == 16
    assert back.status["decision"]["action"] == "RollBackLimits"
    assert [entry.get("outcome") for entry in back.status["history"]] == [None, "RolledBack"]
    assert "LimitsRolledBack" in [event.reason for event in back.events]
    better = plan(service(), window(), previous=LOWERED_BEFORE)
    assert better.status["history"][0]["outcome"] == "Kept"


def test_how_much_worse_is_harm_is_the_spec_s_to_say():
    patient = service({"tuning": {"rollbackOn": {"attainmentDrop": "0.5"}}})
    kept = plan(patient, window(**WORSE), previous=LOWERED_BEFORE)
    assert kept.status["decision"]["action"] != "RollBackLimits"
    assert kept.status["history"][-1]["outcome"] == "Kept"
