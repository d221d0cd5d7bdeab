"""Processes of the operator that end at any time, and two that would both write."""

import time
from datetime import datetime
from pathlib import Path

import pytest
from eventually import eventually
from least_service import service

pytestmark = pytest.mark.cluster

CRDS = Path(__file__).parents[3] / "crds"


LEASE = ("lease", "headrace-system", "headrace-operator")


def lease_of(namespace):
    return namespace.objects.get(*LEASE)["spec"]


def is_settled(namespace, operator):
    """Whether it has nothing more to write: it looked again and wrote nothing."""
    namespace.touch("chat")
    writes, reconciles = (
        operator.metric(f"headrace_operator_{count}_total") for count in ("writes", "reconciles")
    )
    eventually(lambda: operator.metric("headrace_operator_reconciles_total") > reconciles)
    return operator.metric("headrace_operator_writes_total") == writes


@pytest.mark.parametrize("alive_s", [0.3, 1.2])
def test_killed_at_any_moment_it_converges_after_a_restart(namespace, start_operator, alive_s):
    names = [f"chat-{i}" for i in range(8)]
    namespace.apply(*(service(name) for name in names))
    first = start_operator(ready=False)
    time.sleep(1.0 + alive_s)
    first.kill()
    namespace.objects.delete(*LEASE)
    start_operator()

    def all_there():
        found = {deployment["metadata"]["name"] for deployment in namespace.find("deployments")}
        return found == {f"{name}-engine" for name in names}

    eventually(all_there)
    eventually(lambda: all(namespace.condition(name, "Ready") for name in names))


def test_a_restart_rewrites_nothing(namespace, start_operator):
    namespace.apply(service())
    first = start_operator()
    eventually(lambda: namespace.condition("chat", "Ready"))
    eventually(lambda: namespace.get("poddisruptionbudget", "chat-engine"))
    eventually(lambda: is_settled(namespace, first))
    assert first.stop() == 0
    second = start_operator()
    eventually(lambda: second.metric("headrace_operator_reconciles_total") >= 2)
    assert second.metric("headrace_operator_writes_total") == 0


def test_a_stopped_operator_gives_the_lease_up_and_another_takes_it_at_once(namespace, start_operator):
    one, two = start_operator(), start_operator()
    eventually(lambda: one.leads)
    assert not two.leads
    assert one.stop() == 0
    assert not lease_of(namespace)["holderIdentity"].startswith("operator-0"), "nobody need wait for its end"
    eventually(lambda: two.leads)
    assert lease_of(namespace)["holderIdentity"].startswith("operator-1")


def test_a_killed_leader_is_followed_once_its_lease_has_ended(namespace, start_operator):
    one, two = start_operator(), start_operator()
    eventually(lambda: one.leads)
    one.kill()
    renewed_at = datetime.fromisoformat(lease_of(namespace)["renewTime"])
    namespace.apply(service())
    eventually(lambda: two.leads)
    taken_at = datetime.fromisoformat(lease_of(namespace)["acquireTime"])
    duration_s = lease_of(namespace)["leaseDurationSeconds"]
    assert (taken_at - renewed_at).total_seconds() >= duration_s, "nobody could know that the leader was gone"
    eventually(lambda: namespace.get("deployment", "chat-engine"))


def test_a_standby_writes_nothing(namespace, start_operator):
    one, two = start_operator(), start_operator()
    eventually(lambda: one.leads)
    namespace.apply(service())
    eventually(lambda: namespace.condition("chat", "Ready"))
    assert one.metric("headrace_operator_writes_total") > 0
    assert two.metric("headrace_operator_writes_total") == 0
    assert two.get("/readyz") == "ok\n", "a standby is healthy"


def test_without_the_resource_it_waits_and_says_what_to_do(namespace, start_operator):
    """It is watched for as soon as it is there."""
    crd = "crd/inferenceservices.headrace.dev"
    namespace.cluster.kubectl("delete", crd)
    try:
        operator = start_operator(ready=False)
        eventually(lambda: "apply crds/ first" in operator.log.read_text())
    finally:
        namespace.cluster.kubectl("apply", "--server-side", "-f", str(CRDS))
    operator.wait_ready()
    namespace.apply(service())
    eventually(lambda: namespace.get("deployment", "chat-engine"))
