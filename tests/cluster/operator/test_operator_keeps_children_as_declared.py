"""One operator on a real API server: children made, kept, left alone, and gone."""

import json
import time
from contextlib import contextmanager

import pytest
from api_audit import writes
from eventually import eventually
from least_service import service

from headrace_local.probe import ClusterError

pytestmark = pytest.mark.cluster

CHILDREN = [
    ("deployment", "chat-engine"),
    ("service", "chat"),
    ("configmap", "chat-engine"),
    ("poddisruptionbudget", "chat-engine"),
    ("networkpolicy", "chat-engine"),
    ("serviceaccount", "chat-engine"),
]


def children_of(namespace):
    found = [namespace.get(kind, name) for kind, name in CHILDREN]
    return found if all(found) else None


def look_again(namespace, operator, times=2):
    for _ in range(times):
        reconciled = operator.metric("headrace_operator_reconciles_total")
        namespace.touch("chat")
        eventually(lambda at=reconciled: operator.metric("headrace_operator_reconciles_total") > at)


@pytest.fixture
def running(namespace, operator):
    """An operator, and a service whose children it has made and whose status it has written."""
    namespace.apply(service())
    eventually(lambda: children_of(namespace))
    eventually(lambda: namespace.condition("chat", "Ready"))
    return operator


def test_a_service_gets_its_children_and_a_status(namespace, running):
    uid = namespace.get("infs", "chat")["metadata"]["uid"]
    for child in children_of(namespace):
        [owner] = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)
        assert child["metadata"]["labels"]["headrace.dev/inferenceservice"] == "chat"
        assert "headrace" in {field["manager"] for field in child["metadata"]["managedFields"]}
    status = namespace.get("infs", "chat")["status"]
    assert status["observedGeneration"] == 1
    assert status["url"] == f"http://chat.{namespace.name}.svc:8000/v1"
    assert namespace.condition("chat", "Accepted")["status"] == "True"
    assert namespace.condition("chat", "Ready")["status"] == "False", "there is no node, so no pod runs"
    assert namespace.condition("chat", "MetricsAvailable")["status"] != "True"


def test_nothing_of_kopf_is_left_on_the_service(namespace, running):
    metadata = namespace.get("infs", "chat")["metadata"]
    assert "finalizers" not in metadata
    assert [name for name in metadata.get("annotations", {}) if "kopf" in name] == []


def test_when_nothing_changes_nothing_is_written(namespace, running):
    """By the API server's own record, once what follows a creation is through."""

    def nothing_is_written():
        before = writes(namespace.cluster, namespace.name)
        time.sleep(5)
        look_again(namespace, running)
        return before and writes(namespace.cluster, namespace.name) == before

    eventually(nothing_is_written)


@pytest.mark.parametrize(
    ("kind", "name", "edit", "edited"),
    [
        ("service", "chat", {"spec": {"selector": {"headrace.dev/inferenceservice": "x"}}}, "selector"),
        ("configmap", "chat-engine", {"data": {"limits.json": '{"max_num_seqs": 1}'}}, "data"),
        ("deployment", "chat-engine", {"spec": {"template": {"spec": {"hostNetwork": True}}}}, "template"),
    ],
)
def test_a_hand_s_edit_of_what_we_own_is_undone(namespace, running, kind, name, edit, edited):
    part = "data" if kind == "configmap" else "spec"
    before = namespace.get(kind, name)[part]
    if edited == "template":
        edit = {"spec": {"template": {"spec": {"automountServiceAccountToken": True}}}}
    namespace.patch(kind, name, edit)
    assert namespace.get(kind, name)["metadata"]["resourceVersion"]
    eventually(lambda: namespace.get(kind, name)[part] == before)
    eventually(lambda: [event for event in namespace.events("chat") if event["reason"] == "DriftCorrected"])


def test_what_others_add_is_left_alone(namespace, running):
    namespace.kubectl("label", "deployment", "chat-engine", "team=ml")
    namespace.kubectl("annotate", "service", "chat", "note=ours")
    look_again(namespace, running)
    assert namespace.get("deployment", "chat-engine")["metadata"]["labels"]["team"] == "ml"
    assert namespace.get("service", "chat")["metadata"]["annotations"]["note"] == "ours"


@pytest.mark.parametrize(("kind", "name"), CHILDREN)
def test_a_deleted_child_comes_back(namespace, running, kind, name):
    old = namespace.get(kind, name)["metadata"]["uid"]
    namespace.delete(kind, name)
    eventually(lambda: (namespace.get(kind, name) or {"metadata": {"uid": old}})["metadata"]["uid"] != old)


def test_a_deleted_service_leaves_nothing(namespace, running):
    namespace.delete("infs", "chat")
    eventually(lambda: not any(namespace.get(kind, name) for kind, name in CHILDREN))
    time.sleep(2)
    assert not any(namespace.get(kind, name) for kind, name in CHILDREN), "nothing is made again"
    assert running.metric("headrace_operator_queue_depth") == 0


def test_a_service_made_again_under_its_name_gets_children_of_its_own(namespace, running):
    old = namespace.get("infs", "chat")["metadata"]["uid"]
    namespace.delete("infs", "chat")
    namespace.apply(service())
    new = namespace.get("infs", "chat")["metadata"]["uid"]
    assert new != old

    def adopted():
        found = children_of(namespace)
        return found and all(child["metadata"]["ownerReferences"][0]["uid"] == new for child in found)

    eventually(adopted)


THEIRS = {"matchLabels": {"app": "theirs"}}
OF_ANOTHER = {
    "serviceaccount": ("v1", "ServiceAccount", {}),
    "networkpolicy": ("networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": THEIRS}}),
    "configmap": ("v1", "ConfigMap", {"data": {"theirs": "yes"}}),
    "service": ("v1", "Service", {"spec": {"ports": [{"port": 9}]}}),
    "poddisruptionbudget": ("policy/v1", "PodDisruptionBudget", {"spec": {"selector": THEIRS}}),
}


@pytest.mark.parametrize("kind", OF_ANOTHER)
def test_an_object_of_a_child_s_name_that_is_not_ours_stays_untouched(namespace, operator, kind):
    """It has no label, so that nothing tells of it before a child is to be made."""
    api_version, word, content = OF_ANOTHER[kind]
    name = "chat" if kind == "service" else "chat-engine"
    theirs = {"apiVersion": api_version, "kind": word, "metadata": {"name": name}, **content}
    namespace.objects.create(namespace.name, theirs)
    if kind == "poddisruptionbudget":
        # Kubernetes' own controller writes its status once.
        eventually(lambda: namespace.get(kind, name)["status"].get("observedGeneration"))
    before = namespace.get(kind, name)
    namespace.apply(service())

    def reported():
        status = json.dumps(namespace.get("infs", "chat").get("status") or {})
        return "NameConflict" in status and name in status

    eventually(reported)
    look_again(namespace, operator)
    assert namespace.get(kind, name) == before
    namespace.delete(kind, name)
    eventually(lambda: children_of(namespace))


@contextmanager
def without_a_rule(cluster):
    """The CRD of an earlier version, which takes what today's does not."""
    name = "customresourcedefinition/inferenceservices.headrace.dev"
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/engine/properties/limits"
    rules = f"{path}/x-kubernetes-validations"
    found = json.loads(cluster.kubectl("get", name, "-o", "json"))
    for part in rules.strip("/").split("/"):
        found = found[int(part)] if isinstance(found, list) else found[part]

    def patch(**operation):
        cluster.kubectl("patch", name, "--type=json", "-p", json.dumps([{"path": rules, **operation}]))

    patch(op="remove")
    try:
        yield
    finally:
        patch(op="add", value=found)


def test_a_service_that_predates_a_rule_is_refused_alone(namespace, operator):
    bad = service("bad", engine={"limits": {"maxNumSeqs": 16, "maxNumBatchedTokens": 8}})

    def is_taken():
        try:
            namespace.apply(bad)
        except ClusterError:
            return False
        return True

    with without_a_rule(namespace.cluster):
        eventually(is_taken)
    namespace.apply(service("chat"))
    refused = eventually(lambda: namespace.condition("bad", "Accepted"))
    assert refused["status"] == "False"
    assert "spec.engine.limits.maxNumBatchedTokens" in refused["message"]
    eventually(lambda: children_of(namespace))
    assert namespace.get("deployment", "bad-engine") is None


def test_an_edit_of_the_spec_reaches_the_children(namespace, running):
    namespace.apply(service(scaling={"mode": "Fixed", "minReplicas": 3, "maxReplicas": 3}))
    eventually(lambda: namespace.get("deployment", "chat-engine")["spec"]["replicas"] == 3)
    eventually(lambda: namespace.get("infs", "chat")["status"]["observedGeneration"] == 2)
