"""Conditions, events and the status document: one object that says what is, and says it when it changes."""

import pytest
from operator_builders import NOW_S, SETTINGS, deployment, observation, pod, resource, service, window

from headrace_operator.api.parsing import parse
from headrace_operator.api.status_document import tells_news
from headrace_operator.decide.controller import decide


def plan(spec=None, *, now_s=NOW_S, **seen):
    known = spec or service()
    return decide(observation(known, **seen), known, settings=SETTINGS, now_s=now_s)


def conditions(status):
    return {found["type"]: found for found in status["conditions"]}


def test_a_new_service_has_every_condition_at_once():
    status = plan(pods=(), children={}).status
    assert set(conditions(status)) == {
        "Ready",
        "Accepted",
        "Progressing",
        "ModelLoaded",
        "MetricsAvailable",
        "SLOMet",
        "SLOFeasible",
        "ScalingActive",
        "TuningActive",
        "Conflict",
    }
    assert conditions(status)["Ready"]["status"] == "False"
    assert status["observedGeneration"] == 1


def test_a_new_service_gets_its_children_in_the_order_in_which_they_are_needed():
    first = plan(pods=(), children={})
    assert [manifest["kind"] for manifest in first.objects] == [
        "ServiceAccount",
        "NetworkPolicy",
        "ConfigMap",
        "Service",
        "PodDisruptionBudget",
        "Deployment",
    ]


@pytest.mark.parametrize(
    ("trouble", "message", "ready", "loaded"),
    [
        ("Unschedulable", "0/1 nodes: Insufficient nvidia.com/gpu", "InsufficientGPU", "NotStarted"),
        ("ErrImagePull", "no such image", "ImagePullFailed", "NotStarted"),
        ("ImagePullBackOff", "no such image", "ImagePullFailed", "NotStarted"),
        ("InvalidImageName", "couldn't parse", "ImagePullFailed", "NotStarted"),
        ("Error", "unknown architecture Foo", "EngineFailed", "LoadFailed"),
        ("Completed", "exit code 0", "EngineFailed", "LoadFailed"),
        ("CreateContainerConfigError", "no configmap", "CreateContainerConfigError", "NotStarted"),
        ("OOMKilled", "exit code 137", "OutOfMemory", "OutOfMemory"),
    ],
)
def test_what_keeps_a_pod_from_running_is_the_reason_of_ready(trouble, message, ready, loaded):
    spec = service({"engine": {"gpu": {"count": 1}}})
    broken = pod(ready=False, trouble=trouble, trouble_message=message)
    found = conditions(plan(spec, pods=(broken,)).status)
    assert found["Ready"]["reason"] == ready
    assert message in found["Ready"]["message"]
    assert found["ModelLoaded"]["reason"] == loaded


def test_a_pod_that_its_node_evicted_is_told_only_while_nothing_takes_its_place():
    evicted = pod(1, ready=False, phase="Failed", trouble="Evicted", trouble_message="low on memory")
    alone = plan(pods=(evicted,), deployed=1).status
    assert conditions(alone)["Ready"]["reason"] == "Evicted"
    assert alone["replicas"] == 0
    replaced = plan(pods=(evicted, pod(2, ready=False)), deployed=1).status
    assert conditions(replaced)["Ready"]["reason"] == "Loading"
    served = plan(pods=(evicted, pod()), deployed=1).status
    assert (served["replicas"], conditions(served)["Progressing"]["reason"]) == (1, "RolloutComplete")


def test_a_pod_that_served_for_long_is_given_time_to_come_back():
    restarting = pod(ready=False, created_s=NOW_S - 86400.0, unready_since_s=NOW_S - 10.0)
    assert conditions(plan(pods=(restarting,)).status)["Ready"]["reason"] == "Loading"
    gone = pod(ready=False, created_s=NOW_S - 86400.0, unready_since_s=NOW_S - 1000.0)
    assert conditions(plan(pods=(gone,)).status)["Ready"]["reason"] == "ModelLoadFailed"


def test_a_service_at_zero_is_ready_and_not_progressing():
    found = conditions(plan(service({"replicas": 0}), pods=(), previous={"desiredReplicas": 0}).status)
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("True", "ScaledToZero")
    assert found["Progressing"]["status"] == "False"


def test_a_transition_time_moves_with_the_status_alone():
    before = plan(recent=window(), previous=with_slo_since()).status
    later = plan(recent=window(now_s=NOW_S + 60, good=50, late=50), previous=before, now_s=NOW_S + 60).status
    assert conditions(later)["SLOMet"]["lastTransitionTime"] == "2027-01-15T08:01:00Z"
    assert conditions(later)["Ready"]["lastTransitionTime"] == "2027-01-15T08:00:00Z"


def test_numbers_alone_are_written_only_now_and_then():
    before = plan(recent=window()).status
    soon = plan(recent=window(now_s=NOW_S + 5, running_per_pod=7.0), previous=before, now_s=NOW_S + 5)
    assert soon.status is None
    later = plan(recent=window(now_s=NOW_S + 16, running_per_pod=7.0), previous=before, now_s=NOW_S + 16)
    assert later.status["observed"]["runningPerPod"] == "7.0"


def test_that_a_pod_still_loads_is_no_news():
    loading = {"pods": (pod(ready=False),), "recent": None}
    first = plan(**loading).status
    assert "load since 2027-01-15T07:59:55Z" in first["decision"]["message"]
    for waited_s in range(5, 300, 5):
        assert plan(**loading, previous=first, now_s=NOW_S + waited_s).status is None, waited_s


def test_the_same_document_is_no_news():
    status = plan(recent=window()).status
    assert not tells_news(status, status, refresh_s=0.0, now_s=NOW_S + 1000)


def test_events_are_told_once():
    ready = plan(recent=window())
    assert "Ready" in [event.reason for event in ready.events]
    again = plan(recent=window(), previous=ready.status)
    assert again.events == ()


def test_a_missed_slo_is_an_event_when_it_begins_and_when_it_ends():
    met = plan(recent=window(), previous=with_slo_since()).status
    missed = plan(recent=window(good=80, late=20), previous=met)
    assert ("Warning", "SLOBreached") in [(event.type, event.reason) for event in missed.events]
    restored = plan(recent=window(), previous=missed.status)
    assert ("Normal", "SLORestored") in [(event.type, event.reason) for event in restored.events]


def with_slo_since():
    """Pods that started under today's targets: their own counts are believed."""
    return {"slo": {"key": "ttft=1,itl=0.2", "since": "2027-01-15T06:00:00Z"}}


def test_after_an_edit_of_the_targets_the_histograms_are_judged_not_the_old_counts():
    edited = service({"slo": {"ttft": "100ms"}}, generation=2)
    status = plan(edited, recent=window(ttft_s=0.2), previous=with_slo_since()).status
    assert status["observed"]["attainment"] == "0.000"
    assert conditions(status)["SLOMet"]["status"] == "False"


def test_an_applied_change_stands_in_history_with_its_numbers_and_in_an_event():
    slow = window(itl_s=0.3, prompt_tokens=10, running_per_pod=7.5, running_peak=8.0)
    change = plan(recent=slow)
    [entry] = change.status["history"]
    assert (entry["action"], entry["reason"]) == ("LowerSeqLimit", "ITLOverTarget")
    assert entry["id"] == change.status["decision"]["id"]
    assert change.status["activeLimits"]["maxNumSeqs"] == 6
    assert [call.limits.max_num_seqs for call in change.set_limits] == [6]
    assert any(event.reason == "LimitsTuned" for event in change.events)
    assert {"name": "itlP95", "value": "300ms", "target": "200ms"} in change.status["decision"]["inputs"]


def test_a_pod_whose_limits_differ_is_told_and_one_under_a_rollout_is_not():
    previous = {"activeLimits": {"maxNumSeqs": 8, "maxNumBatchedTokens": 512}}
    assert len(plan(previous=previous).set_limits) == 1
    rolling = {"Deployment": deployment(1, spec=service(), updated=0)}
    assert plan(previous=previous, children=rolling).set_limits == ()


def test_an_invalid_spec_says_so_and_leaves_the_pods_alone():
    invalid = parse(resource({"slo": {"ttft": "fast"}}, generation=2))
    before = plan(recent=window()).status
    facts = observation(service(), previous=before)
    refused = decide(facts, invalid, settings=SETTINGS, now_s=NOW_S)
    found = conditions(refused.status)
    assert (found["Accepted"]["status"], found["Accepted"]["reason"]) == ("False", "InvalidSpec")
    assert "spec.slo.ttft" in found["Accepted"]["message"]
    assert found["Ready"]["status"] == "True", "the pods of the earlier spec go on serving"
    assert refused.status["observedGeneration"] == 2
    assert refused.status["activeLimits"] == before["activeLimits"]
    assert refused.objects == refused.drain == ()
    assert [event.reason for event in refused.events] == ["InvalidSpec"]
    again = decide(
        observation(service(), previous=refused.status), invalid, settings=SETTINGS, now_s=NOW_S + 60
    )
    assert again.is_empty


def test_somebody_elses_object_of_a_childs_name_is_left_untouched():
    foreign = {"Service": {"metadata": {"name": "chat", "ownerReferences": []}}}
    refused = plan(pods=(), children=foreign)
    assert conditions(refused.status)["Accepted"]["reason"] == "NameConflict"
    assert "Service chat" in conditions(refused.status)["Ready"]["message"]
    assert refused.objects == ()


def test_an_edited_child_is_set_back_and_the_event_names_the_field():
    made = {manifest["kind"]: manifest for manifest in plan(pods=(), children={}).objects}
    live = {**made, "Service": {**made["Service"], "spec": {**made["Service"]["spec"], "type": "NodePort"}}}
    corrected = plan(pods=(), children=live, previous={"desiredReplicas": 1})
    assert [manifest["kind"] for manifest in corrected.objects] == ["Service"]
    assert "spec.type was edited" in corrected.events[-1].message
