"""A PodMonitor for each service, where Prometheus' operator is installed; where it is not, nothing lacks."""

import json

import pytest
from eventually import eventually
from least_service import service

pytestmark = pytest.mark.cluster

ROLE = "clusterrole/headrace-operator-headrace-system"
RULE = {
    "apiGroups": ["monitoring.coreos.com"],
    "resources": ["podmonitors"],
    "verbs": ["get", "list", "watch", "create", "patch"],
}
"""What the chart adds with `monitoring.podMonitor.enabled`."""
WANTED = {"POD_MONITORS": "true", "POD_MONITOR_LABELS": '{"release": "prometheus"}'}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podmonitors.monitoring.coreos.com",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in"},
    },
    "spec": {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"kind": "PodMonitor", "listKind": "PodMonitorList", "plural": "podmonitors"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


@pytest.fixture
def prometheus(installed):
    """What its operator installs, and the right that the chart gives ours there."""
    installed.apply([CRD])
    installed.kubectl("wait", "--for=condition=Established", f"crd/{CRD['metadata']['name']}")
    rules = json.loads(installed.kubectl("get", ROLE, "-o", "json"))["rules"]
    installed.kubectl("patch", ROLE, "--type=merge", "-p", json.dumps({"rules": [*rules, RULE]}))
    yield
    installed.kubectl("patch", ROLE, "--type=merge", "-p", json.dumps({"rules": rules}))
    installed.kubectl("delete", "crd", CRD["metadata"]["name"])


def monitor(namespace):
    return namespace.get("podmonitors.monitoring.coreos.com", "chat-engine")


def test_a_cluster_that_knows_none_is_served_without(namespace, start_operator):
    start_operator(**WANTED)
    namespace.apply(service())
    eventually(lambda: namespace.get("deployment", "chat-engine"))
    assert namespace.condition("chat", "Accepted")["status"] == "True"


def test_a_service_gets_one_and_keeps_it_as_rendered(prometheus, namespace, start_operator):
    start_operator(**WANTED)
    namespace.apply(service())
    made = eventually(lambda: monitor(namespace))
    assert made["metadata"]["labels"]["release"] == "prometheus"
    [owner] = made["metadata"]["ownerReferences"]
    assert owner["uid"] == namespace.get("infs", "chat")["metadata"]["uid"]
    edit = {"spec": {"selector": {"matchLabels": {"headrace.dev/inferenceservice": "another"}}}}
    namespace.patch("podmonitors.monitoring.coreos.com", "chat-engine", edit)
    eventually(lambda: monitor(namespace)["spec"] == made["spec"])
    assert "DriftCorrected" in [event["reason"] for event in namespace.events("chat")]
