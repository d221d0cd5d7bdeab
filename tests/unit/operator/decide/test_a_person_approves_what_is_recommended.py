"""Annotation headrace.dev/approve: exactly what was recommended is done, once; anything else is refused."""

import pytest
from operator_builders import NOW_S, SETTINGS, observation, pod, service, window

from headrace_operator.decide.controller import decide

OVERLOAD = {"queue_s": 0.9, "itl_s": 0.19, "running_per_pod": 16.0, "running_peak": 16.0}
BUSY = {"queue_s": 0.9, "itl_s": 0.08, "running_per_pod": 8.0, "running_peak": 8.0}
LASTED = {"desiredReplicas": 1, "pressure": {"overloadedSince": "2027-01-15T07:59:00Z"}}
ADVISED = {"scaling": {"mode": "Recommend"}, "tuning": {"mode": "Recommend"}}


def plan(*, approve=None, previous=LASTED, spec=ADVISED, seen=OVERLOAD, later_s=0.0):
    wanted = service(spec)
    recent = window(now_s=NOW_S + later_s, **seen) if seen else None
    pods = [pod(number) for number in range(previous.get("desiredReplicas", 1))]
    facts = observation(wanted, recent=recent, previous=previous, pods=pods, approve=approve)
    return decide(facts, wanted, settings=SETTINGS, now_s=NOW_S + later_s)


def told(found):
    return [event.reason for event in found.events]


def test_the_id_that_status_shows_is_what_is_approved_and_it_stays_while_it_says_the_same():
    shown = plan().status
    assert shown["recommendation"]["after"]["replicas"] == 2
    assert shown["decision"]["id"] == shown["recommendation"]["id"]
    later = plan(previous={**LASTED, **shown}, seen={**OVERLOAD, "queue_s": 0.8}, later_s=9).status
    assert (later or shown)["recommendation"]["id"] == shown["recommendation"]["id"]


def test_an_approved_recommendation_is_carried_out_and_recorded():
    shown = plan().status
    identity = shown["recommendation"]["id"]
    found = plan(approve=identity, previous=shown, later_s=5)
    status = found.status
    assert status["desiredReplicas"] == 2
    assert (status["decision"]["action"], status["decision"]["applied"]) == ("ScaleUp", True)
    assert status["history"][0]["approved"] is True
    assert status["history"][0]["id"] == identity
    assert status["approval"] == {"value": identity, "outcome": "Applied", "message": "ScaleUp was applied"}
    assert "recommendation" not in status, "it is not one any more"
    assert [kind for kind in told(found) if kind in {"RecommendationApproved", "SuccessfulRescale"}] == [
        "RecommendationApproved",
        "SuccessfulRescale",
    ]
    deployment = next(manifest for manifest in found.objects if manifest["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 2


@pytest.mark.parametrize("value", ["next", None])
def test_an_approval_counts_once_though_the_annotation_stays(value):
    shown = plan().status
    approve = value or shown["recommendation"]["id"]
    applied = plan(approve=approve, previous=shown).status
    again = {**applied, "pressure": LASTED["pressure"]}
    held = plan(approve=approve, previous=again, later_s=600)
    assert held.status["desiredReplicas"] == 2
    assert held.status["recommendation"]["after"]["replicas"] == 3
    assert held.status["approval"]["value"] == approve
    assert "RecommendationApproved" not in told(held)
    removed = plan(previous=held.status, later_s=605)
    assert "approval" not in removed.status, "and may be given again once it was gone"
    assert plan(approve="next", previous=removed.status, later_s=610).status["desiredReplicas"] == 3


def test_the_next_recommendation_is_waited_for():
    calm = plan(approve="next", seen={})
    assert "approval" not in calm.status
    busy = plan(approve="next", previous={**calm.status, **LASTED})
    assert busy.status["desiredReplicas"] == 2


def test_limits_are_approved_like_replicas():
    limits = {"activeLimits": {"maxNumSeqs": 8, "maxNumBatchedTokens": 512, "source": "Tuned"}}
    found = plan(approve="next", previous={**LASTED, **limits}, seen=BUSY)
    assert found.status["activeLimits"]["maxNumSeqs"] == 10
    assert [call.limits.max_num_seqs for call in found.set_limits] == [10]
    kept = plan(approve="next", previous=found.status, seen={}, later_s=5)
    assert (kept.status or found.status)["activeLimits"]["maxNumSeqs"] == 10


def test_an_id_that_is_not_in_force_is_refused_once_and_the_event_names_the_one_that_is():
    shown = plan().status
    found = plan(approve="00c0ffee", previous=shown)
    assert found.status["desiredReplicas"] == 1
    assert found.status["approval"]["outcome"] == "Refused"
    [event] = [event for event in found.events if event.reason == "ApprovalRefused"]
    assert "00c0ffee" in event.message
    assert shown["recommendation"]["id"] in event.message
    assert "ApprovalRefused" not in told(plan(approve="00c0ffee", previous=found.status, later_s=9))


def test_what_was_read_before_the_recommendation_changed_is_refused():
    shown = plan().status
    three = {**shown, "desiredReplicas": 2}
    found = plan(approve=shown["recommendation"]["id"], previous=three)
    assert (found.status["desiredReplicas"], found.status["approval"]["outcome"]) == (2, "Refused")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "nothing is recommended"),
        ({**ADVISED, "replicas": 1, "tuning": {"mode": "Off"}}, "nothing is recommended"),
        ({**ADVISED, "paused": True}, "not the recommendation in force"),
    ],
)
def test_where_nothing_is_to_be_approved_that_is_said(spec, why):
    found = plan(approve="00c0ffee", spec=spec)
    assert why in found.status["approval"]["message"]


def test_limits_of_an_engine_that_takes_them_at_its_start_cannot_be_approved():
    vllm = {"runtime": "vllm", "image": "vllm/vllm-openai:v0.32.0"}
    slow = {"itl_s": 0.3, "prompt_tokens": 10, "running_per_pod": 8.0, "running_peak": 8.0}
    found = plan(approve="next", spec={**ADVISED, "engine": vllm}, seen=slow)
    assert found.status["approval"]["outcome"] == "Refused"
    assert "engine.limits" in found.status["approval"]["message"]
    assert found.status["activeLimits"]["maxNumSeqs"] == 16


def test_what_the_spec_orders_comes_first_and_the_approval_waits():
    shown = plan().status
    least = {**ADVISED, "scaling": {"mode": "Recommend", "minReplicas": 2}}
    found = plan(approve="next", previous=shown, spec=least)
    assert found.status["decision"]["reason"] == "AtMin"
    assert "approval" not in found.status


@pytest.mark.parametrize("approve", ["x" * 1024, "x" * 1025, "x" * 200_000, "\ud800"])
def test_an_answer_is_given_once_however_long_what_was_asked_is(approve):
    """The status keeps the beginning of it."""
    refused = plan(approve=approve)
    assert "ApprovalRefused" in told(refused)
    again = plan(approve=approve, previous=refused.status, later_s=5)
    assert "ApprovalRefused" not in told(again)
