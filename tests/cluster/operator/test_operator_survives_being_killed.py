"""Processes of the operator that end at any time, and two that would both write."""

import signal
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

CRDS = Path(__file__).parents[3] / "crds"


def holder(namespace):
    where = ("-n", "headrace-system", "lease", "headrace-operator")
    return namespace.cluster.kubectl("get", *where, "-o", "jsonpath={.spec.holderIdentity}")


@pytest.mark.parametrize("alive_s", [0.3, 1.2])
def test_killed_at_any_moment_it_converges_after_a_restart(
    namespace, start_operator, service, eventually, alive_s
):
    names = [f"chat-{i}" for i in range(8)]
    namespace.apply(*(service(name) for name in names))
    first = start_operator(ready=False)
    time.sleep(1.0 + alive_s)
    first.kill()
    start_operator()

    def all_there():
        found = {deployment["metadata"]["name"] for deployment in namespace.find("deployments")}
        return found == {f"{name}-engine" for name in names}

    eventually(all_there, within_s=40)
    eventually(lambda: all(namespace.condition(name, "Ready") for name in names))


def test_a_restart_rewrites_nothing(namespace, start_operator, service, eventually):
    namespace.apply(service())
    first = start_operator()
    eventually(lambda: namespace.condition("chat", "Ready"))
    eventually(lambda: namespace.get("poddisruptionbudget", "chat-engine"))
    time.sleep(2)
    assert first.stop() == 0
    second = start_operator()
    eventually(lambda: second.metric("headrace_operator_reconciles_total") >= 2)
    assert second.metric("headrace_operator_writes_total") == 0


def test_a_stopped_operator_gives_the_lease_up_and_another_takes_it_at_once(
    namespace, start_operator, eventually
):
    one, two = start_operator(), start_operator()
    eventually(lambda: one.leads)
    assert not two.leads
    started_s = time.monotonic()
    assert one.stop() == 0
    assert time.monotonic() - started_s < 10
    eventually(lambda: two.leads, within_s=6)
    assert holder(namespace).startswith("operator-1")


def test_a_killed_leader_is_followed_once_its_lease_has_ended(namespace, start_operator, service, eventually):
    one, two = start_operator(), start_operator()
    eventually(lambda: one.leads)
    one.kill()
    namespace.apply(service())
    assert not two.leads, "nobody can know yet that the leader is gone"
    assert namespace.get("deployment", "chat-engine") is None
    eventually(lambda: two.leads, within_s=25)
    eventually(lambda: namespace.get("deployment", "chat-engine"))


@pytest.mark.slow
def test_a_leader_that_was_frozen_does_not_write_when_it_thaws(
    namespace, start_operator, service, eventually
):
    one, two = start_operator(), start_operator()
    eventually(lambda: one.leads)
    one.process.send_signal(signal.SIGSTOP)
    eventually(lambda: two.leads, within_s=30)
    namespace.apply(service())
    eventually(lambda: namespace.get("deployment", "chat-engine"))
    one.process.send_signal(signal.SIGCONT)
    time.sleep(4)
    assert not one.leads
    assert two.leads
    assert one.metric("headrace_operator_writes_total") == 0


def test_a_standby_writes_nothing(namespace, start_operator, service, eventually):
    one, two = start_operator(), start_operator()
    eventually(lambda: one.leads)
    namespace.apply(service())
    eventually(lambda: namespace.condition("chat", "Ready"))
    assert one.metric("headrace_operator_writes_total") > 0
    assert two.metric("headrace_operator_writes_total") == 0
    assert two.get("/readyz") == "ok\n", "a standby is healthy"


def test_without_the_resource_it_waits_and_says_what_to_do(namespace, start_operator, service, eventually):
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
