"""HorizontalPodAutoscalers are others' objects: found by their target, kept small, and woken for seldom."""

import pytest

from headrace_operator.decide.observation import Autoscaler
from headrace_operator.kube.autoscalers import scaled_by
from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.kinds import AUTOSCALERS, DEPLOYMENTS, PODS, WATCHED, Key
from headrace_operator.kube.store import Store
from headrace_operator.observe.autoscalers import autoscalers_of

CHAT = Key("default", "chat")
SERVICE = {"apiVersion": "headrace.dev/v1alpha1", "kind": "InferenceService", "name": "chat"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat-engine"}
ALL_SEEN = Coverage(WATCHED, ())
KEDA = {"kind": "ScaledObject", "name": "chat", "controller": True}


def autoscaler(target, *, name="hpa", version=1, **more):
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version), **more}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": ["large"]}
    return {"metadata": metadata, "spec": spec, "status": {"currentReplicas": version}}


@pytest.fixture
def woken():
    return []


@pytest.fixture
def store(woken):
    return Store(WATCHED, wake=woken.append)


@pytest.mark.parametrize(("target", "is_of_deployment"), [(SERVICE, False), (DEPLOYMENT, True)])
def test_one_that_targets_a_service_or_its_deployment_is_found_and_named(
    store, woken, target, is_of_deployment
):
    store.put(AUTOSCALERS, autoscaler(target, ownerReferences=[KEDA]))
    [found] = autoscalers_of(CHAT, store=store, coverage=ALL_SEEN)
    name = "HorizontalPodAutoscaler hpa (of ScaledObject chat)"
    assert found == Autoscaler(name, is_of_deployment=is_of_deployment)
    assert woken == [CHAT]
    assert "metrics" not in store.autoscalers_of(CHAT)[0]["spec"]


@pytest.mark.parametrize(
    "target",
    [
        {**SERVICE, "apiVersion": "serving.kserve.io/v1beta1"},
        {**DEPLOYMENT, "name": "web"},
        {**DEPLOYMENT, "name": "-engine"},
        {**DEPLOYMENT, "kind": "StatefulSet"},
        None,
        "chat",
    ],
)
def test_others_are_not_kept(store, woken, target):
    store.put(AUTOSCALERS, autoscaler(target))
    assert store.get(AUTOSCALERS, "default", "hpa") is None
    assert woken == []


def test_what_it_measures_all_the_time_wakes_nobody(store, woken):
    for version in range(1, 9):
        store.put(AUTOSCALERS, autoscaler(DEPLOYMENT, version=version))
    assert woken == [CHAT]


def test_one_that_turns_away_or_goes_is_gone(store, woken):
    store.put(AUTOSCALERS, autoscaler(DEPLOYMENT))
    store.put(AUTOSCALERS, autoscaler({**DEPLOYMENT, "name": "web"}, version=2))
    assert autoscalers_of(CHAT, store=store, coverage=ALL_SEEN) == ()
    store.put(AUTOSCALERS, autoscaler(SERVICE, version=3))
    store.replace(AUTOSCALERS, [], resource_version="9")
    assert autoscalers_of(CHAT, store=store, coverage=ALL_SEEN) == ()
    assert woken == [CHAT] * 4


def test_where_they_may_not_be_listed_nothing_is_said_of_them_and_nothing_else_is_hidden(store):
    coverage = Coverage((PODS, AUTOSCALERS), ())
    coverage.listed(PODS, None, 1.0)
    refusal = KubeError(403, "Forbidden", "no")
    coverage.refuse_list(AUTOSCALERS, None, refusal)
    coverage.watched(AUTOSCALERS, None, refusal)
    assert autoscalers_of(CHAT, store=store, coverage=coverage) is None
    assert coverage.is_settled
    assert (
        coverage.blind_in("default") is coverage.deaf_in("default") is coverage.seen_nowhere_because() is None
    )


OURS = {"manager": "headrace", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
THEIRS = {"manager": "kubectl", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
REST_OF_OURS = {"manager": "headrace", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}}


@pytest.mark.parametrize(
    ("managed", "manager"),
    [
        ([REST_OF_OURS, THEIRS], "kubectl"),
        ([OURS, THEIRS], None),
        ([OURS], None),
        ([REST_OF_OURS, {**THEIRS, "subresource": "status"}], None),
        (["x", {"manager": 1, "subresource": "scale"}], None),
        (None, None),
    ],
)
def test_whoever_set_the_deployment_s_scale_after_us_is_known_by_name(store, managed, manager):
    metadata = {"name": "chat-engine", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    store.put(DEPLOYMENTS, {"metadata": {**metadata, "managedFields": managed}})
    kept = store.get(DEPLOYMENTS, "default", "chat-engine")["metadata"].get("managedFields")
    assert scaled_by(managed) == scaled_by(kept) == manager
    assert kept is None or kept == [THEIRS], "the rest is the larger half of the object"
