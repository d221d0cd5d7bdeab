"""The operator's role loses one verb after the other: each is told on the service, none ends the process."""

import json
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from eventually import eventually
from least_service import service

from headrace_local.cluster import Cluster

pytestmark = pytest.mark.cluster

ROLE = "clusterrole/headrace-operator-headrace-system"
RIGHTS = [
    ("deployments", "create"),
    ("deployments", "patch"),
    ("services", "create"),
    ("configmaps", "patch"),
    ("poddisruptionbudgets", "create"),
    ("networkpolicies", "create"),
    ("serviceaccounts", "patch"),
]


@contextmanager
def lacking(cluster: Cluster, resource: str, verb: str) -> Iterator[None]:
    rules = json.loads(cluster.kubectl("get", ROLE, "-o", "json"))["rules"]
    fewer = [part for rule in rules for part in _without(rule, resource, verb)]
    _set(cluster, fewer)
    try:
        yield
    finally:
        _set(cluster, rules)


def _without(rule: dict[str, Any], resource: str, verb: str) -> list[dict[str, Any]]:
    if resource not in rule["resources"]:
        return [rule]
    others = {**rule, "resources": [name for name in rule["resources"] if name != resource]}
    this = {**rule, "resources": [resource], "verbs": [name for name in rule["verbs"] if name != verb]}
    return [part for part in (others, this) if part["resources"] and part["verbs"]]


def _set(cluster: Cluster, rules: list[dict[str, Any]]) -> None:
    cluster.kubectl("patch", ROLE, "--type=merge", "-p", json.dumps({"rules": rules}))


def test_each_right_that_lacks_is_told_and_all_is_made_once_it_is_there(
    installed: Cluster, namespace: Any, start_operator: Callable[..., Any]
) -> None:
    operator = start_operator()
    eventually(lambda: operator.leads)
    names = [f"{resource[:8]}-{verb}" for resource, verb in RIGHTS]
    for name, (resource, verb) in zip(names, RIGHTS, strict=True):
        with lacking(installed, resource, verb):
            namespace.apply(service(name))
            accepted = eventually(lambda name=name: namespace.refusal(name))
            assert accepted["reason"] == "Forbidden"
            assert f'cannot {verb} resource "{resource}"' in accepted["message"]
            ready = namespace.condition(name, "Ready")
            assert ready is not None
            assert ready["status"] != "True"
    for name in names:
        # An edit is looked at at once; else it would take a minute.
        namespace.patch("infs", name, {"spec": {"slo": {"ttft": "2s"}}})
    eventually(lambda: all(not namespace.refusal(name) for name in names))
    assert operator.process.poll() is None
    assert operator.metric('headrace_operator_reconciles_total{result="Bug"}') == 0


def test_a_name_that_is_taken_is_to_be_looked_at(
    installed: Cluster, namespace: Any, start_operator: Callable[..., Any]
) -> None:
    start_operator()
    namespace.kubectl("create", "configmap", "chat-engine", "--from-literal=theirs=yes")
    with lacking(installed, "configmaps", "get"):
        namespace.apply(service())
        told = eventually(lambda: namespace.refusal("chat"))
        assert 'cannot get resource "configmaps"' in told["message"]
    namespace.patch("infs", "chat", {"spec": {"slo": {"ttft": "2s"}}})
    eventually(lambda: (namespace.condition("chat", "Accepted") or {}).get("reason") == "NameConflict")


def test_a_kind_that_may_not_be_listed_or_watched_is_told_and_served_on_as_far_as_it_is_seen(
    installed: Cluster, namespace: Any, start_operator: Callable[..., Any]
) -> None:
    """The process goes on, and what it told is taken back."""
    operator = start_operator(RELIST_INTERVAL_S="5")
    namespace.apply(service())
    was = eventually(lambda: namespace.get("deployment", "chat-engine"))
    with lacking(installed, "pods", "watch"):
        told = eventually(lambda: namespace.refusal("chat"))
        assert 'cannot watch resource "pods"' in told["message"]
        namespace.apply(service("heard"))
        eventually(lambda: namespace.get("deployment", "heard-engine"))
    eventually(lambda: not namespace.refusal("chat"))
    with lacking(installed, "deployments", "list"):
        eventually(lambda: "cannot list" in _complaint(operator, "/readyz"))
        told = eventually(lambda: namespace.refusal("chat"))
        assert 'cannot list resource "deployments"' in told["message"]
        namespace.apply(service("unseen"))
        eventually(lambda: namespace.refusal("unseen"))
        assert namespace.get("deployment", "unseen-engine") is None
    eventually(lambda: namespace.get("deployment", "unseen-engine"))
    eventually(lambda: not namespace.refusal("chat"))
    assert namespace.get("deployment", "chat-engine")["metadata"]["uid"] == was["metadata"]["uid"]
    with lacking(installed, "horizontalpodautoscalers", "list"):
        eventually(lambda: namespace.condition("chat", "Conflict")["status"] == "Unknown")
        namespace.apply(service("unrivaled"))
        eventually(lambda: namespace.get("deployment", "unrivaled-engine"))
        assert not namespace.refusal("chat"), "they are only told about"
    eventually(lambda: namespace.condition("chat", "Conflict")["status"] == "False")
    assert operator.process.poll() is None
    assert operator.get("/healthz") == "ok\n"


def test_where_owners_are_guarded_the_right_to_block_their_deletion_is_asked_for(
    installed: Cluster, namespace: Any, start_operator: Callable[..., Any]
) -> None:
    start_operator()
    with lacking(installed, "inferenceservices/finalizers", "update"):
        namespace.apply(service())
        told = eventually(lambda: namespace.refusal("chat"))
        assert "blockOwnerDeletion" in told["message"]
    namespace.patch("infs", "chat", {"spec": {"slo": {"ttft": "2s"}}})
    eventually(lambda: namespace.get("deployment", "chat-engine"))


def _complaint(operator: Any, path: str) -> str:
    """What a probe is told that fails; empty where it does not."""
    try:
        operator.get(path)
    except urllib.error.HTTPError as error:
        return error.read().decode()
    return ""


def test_a_status_that_may_not_be_written_is_an_event(
    installed: Cluster, namespace: Any, start_operator: Callable[..., Any]
) -> None:
    operator = start_operator()
    eventually(lambda: operator.leads)
    with lacking(installed, "inferenceservices/status", "patch"):
        namespace.apply(service())
        told = eventually(
            lambda: [found for found in namespace.events("chat") if found["reason"] == "StatusRefused"]
        )
    assert "inferenceservices/status" in told[0]["message"]
    assert namespace.get("deployment", "chat-engine") is None, "what is decided is remembered first"
