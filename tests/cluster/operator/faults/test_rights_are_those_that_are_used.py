"""What the chart grants is what the operator asks of the API server, to the verb."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from eventually import eventually
from fault_proxy import FaultProxy
from least_service import service
from own_namespace import Namespace

from headrace_local.cluster import Cluster
from headrace_operator.api.names import LEFT_ALONE
from headrace_operator.kube.kinds import CHILDREN

pytestmark = pytest.mark.cluster

ROLES = (
    ("clusterrole", "headrace-operator-headrace-system"),
    ("role", "headrace-operator-lease", "-n", "headrace-system"),
)
UNSEEN = {
    # Server-side apply of what is not there yet is a PATCH that takes both rights.
    *(("create", kind.plural) for kind in CHILDREN),
    # Asked by an admission plugin, not by a call: owner references that block a deletion.
    ("update", "inferenceservices/finalizers"),
}


def granted(cluster: Cluster) -> set[tuple[str, str]]:
    roles = [json.loads(cluster.kubectl("get", *role, "-o", "json")) for role in ROLES]
    rules = [rule for role in roles for rule in role["rules"]]
    return {(verb, resource) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def take_the_names(namespace: Namespace, *, like: str, name: str) -> None:
    """Somebody else's objects where the children of a service `name` would be: copies of those of `like`."""
    for kind in CHILDREN:
        [child] = namespace.find(kind.plural, f"headrace.dev/inferenceservice={like}")
        theirs = {part: child[part] for part in ("apiVersion", "kind", "spec", "data") if part in child}
        for assigned in ("clusterIP", "clusterIPs"):
            theirs.get("spec", {}).pop(assigned, None)
        if kind.kind == "Deployment":
            theirs["spec"]["replicas"] = 0
        called = child["metadata"]["name"].replace(like, name)
        namespace.objects.create(namespace.name, theirs | {"metadata": {"name": called}})


def test_a_service_s_life_uses_every_right_and_no_other(
    installed: Cluster, proxy: FaultProxy, namespace: Namespace, start_behind_proxy: Callable[..., Any]
) -> None:
    namespace.objects.delete("lease", "headrace-system", "headrace-operator")
    proxy.calls.clear()
    operator = start_behind_proxy()
    namespace.apply(service())
    pod = eventually(lambda: namespace.find("pods"))[0]["metadata"]["name"]
    # A pod that has its node loads, and is marked; a hand's edit is undone, and told twice.
    placed = {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}
    namespace.patch("pod", pod, placed, subresource="status")
    eventually(lambda: LEFT_ALONE.keys() <= _annotations(namespace, pod))
    for count in (1, 2):
        namespace.patch("service", "chat", {"spec": {"selector": {"headrace.dev/inferenceservice": "x"}}})
        eventually(lambda count=count: _told(namespace, "DriftCorrected") == count)
    # Only where a name is taken by what it does not watch does it look.
    take_the_names(namespace, like="chat", name="taken")
    namespace.apply(service("taken"))
    wanted = {("get", kind.plural) for kind in CHILDREN}
    eventually(lambda: wanted <= proxy.calls.keys())
    eventually(lambda: proxy.calls["update", "leases"] > 0)
    known = {resource for _, resource in granted(installed)}
    used = {call for call in proxy.calls if call[1] in known}
    assert granted(installed) == used | UNSEEN
    assert operator.process.poll() is None
    others = {resource for _, resource in proxy.calls} - known
    assert others <= {""}, "nothing else is asked for but what is served"


def _annotations(namespace: Any, pod: str) -> set[str]:
    return set(namespace.get("pod", pod)["metadata"].get("annotations", {}))


def _told(namespace: Any, reason: str) -> int:
    return sum(event["count"] for event in namespace.events("chat") if event["reason"] == reason)
