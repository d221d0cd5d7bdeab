"""What a broken watch loses is found again, what may not be seen is told, and a watch that cannot be
understood ends the process once.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from fault_proxy import Call, Fault, FaultProxy, answering, erring, is_watch, truncating
from kube_objects import KubeObjects
from least_service import service
from own_namespace import Namespace

from headrace_local.cluster import Cluster

pytestmark = pytest.mark.cluster


def _look_twice(namespace: Namespace, operator: Any) -> None:
    for _ in range(2):
        reconciled = operator.metric("headrace_operator_reconciles_total")
        namespace.touch("chat")
        eventually(lambda at=reconciled: operator.metric("headrace_operator_reconciles_total") > at)


def names(operator: Any) -> set[str]:
    """The services that the operator believes in."""
    lines = operator.get("/metrics").splitlines()
    series = [line for line in lines if line.startswith("headrace_desired_replicas{")]
    return {line.partition('name="')[2].partition('"')[0] for line in series}


def test_what_was_deleted_while_nobody_watched_is_forgotten_though_the_watch_cannot_say_so(
    proxy: FaultProxy, namespace: Any, start_behind_proxy: Callable[..., Any]
) -> None:
    """The history is gone by the time the watch comes back, and with it the deletion."""
    operator = start_behind_proxy()
    namespace.apply(service("stays"), service("goes"))
    eventually(lambda: names(operator) == {"stays", "goes"})
    eventually(lambda: namespace.get("deployment", "goes-engine"))
    with proxy.having(answering(503, "ServiceUnavailable", concerns=is_watch)):
        proxy.drop()
        for kind, name in (("infs", "goes"), ("deployment", "goes-engine"), ("service", "goes")):
            namespace.delete(kind, name)
        eventually(lambda: names(operator) == {"stays"})
    with proxy.having(erring(410, "Expired")) as gone:
        eventually(lambda: gone.hits > 0)
    time.sleep(1)
    assert names(operator) == {"stays"}
    assert namespace.get("deployment", "goes-engine") is None, "a ghost gets no children"
    assert operator.metric('headrace_operator_reconciles_total{result="Bug"}') == 0


UNINTELLIGIBLE = {
    "half a line": truncating,
    "an error event": lambda: erring(500, "InternalError"),
    "a watch that is gone": lambda: answering(410, "Expired", concerns=is_watch),
}


def test_a_watch_that_cannot_be_understood_ends_the_process_once_and_nothing_is_rewritten(
    proxy: FaultProxy, namespace: Any, start_behind_proxy: Callable[..., Any]
) -> None:
    """The kubelet starts it afresh, which is the one recovery that is always right."""
    operator = start_behind_proxy()
    namespace.apply(service())
    eventually(lambda: namespace.condition("chat", "Ready"))
    eventually(lambda: namespace.get("deployment", "chat-engine"))
    for generation, fault in enumerate(UNINTELLIGIBLE, start=2):
        with proxy.having(UNINTELLIGIBLE[fault]()):
            proxy.drop()
            namespace.patch("infs", "chat", {"spec": {"slo": {"ttft": f"{generation}s"}}})
            # 1, or killed by itself where it hangs as it dies.
            assert operator.process.wait(60) in (1, -signal.SIGKILL), fault
        operator = start_behind_proxy()
        eventually(lambda at=generation: namespace.get("infs", "chat")["status"]["observedGeneration"] == at)
        _look_twice(namespace, operator)
        assert operator.metric('headrace_operator_writes_total{kind="Deployment"}') == 0
    assert operator.process.poll() is None


def test_a_token_that_ends_is_followed_by_the_one_that_lies_in_its_place(
    installed: Cluster,
    proxy: FaultProxy,
    namespace: Any,
    start_behind_proxy: Callable[..., Any],
    behind_proxy: Callable[..., Path],
    tmp_path: Path,
) -> None:
    def token() -> str:
        return installed.kubectl("-n", "headrace-system", "create", "token", "headrace-operator").strip()

    old, new = token(), token()
    kubeconfig = behind_proxy(tmp_path / "token", token=old)
    operator = start_behind_proxy(KUBECONFIG=str(kubeconfig))
    eventually(lambda: operator.leads)
    ended = answering(401, "Unauthorized", concerns=lambda call: call.authorization == f"Bearer {old}")
    with proxy.having(ended):
        proxy.drop()
        behind_proxy(kubeconfig, token=new)
        namespace.apply(service())
        eventually(lambda: namespace.condition("chat", "Ready"))
        namespace.patch("infs", "chat", {"spec": {"slo": {"ttft": "2s"}}})
        eventually(lambda: namespace.get("infs", "chat")["status"]["observedGeneration"] == 2)
    assert ended.hits > 0
    assert operator.process.poll() is None


@pytest.fixture
def other(objects: KubeObjects, namespace: Namespace) -> Iterator[Namespace]:
    other = Namespace.create(objects, f"{namespace.name}-other")
    yield other
    other.leave()


def test_a_namespace_that_may_not_be_seen_takes_no_other_with_it(
    proxy: FaultProxy, namespace: Any, other: Any, start_behind_proxy: Callable[..., Any]
) -> None:
    """From the start, and again later. Its services say why; what runs there stays."""

    def lists_its_pods(call: Call) -> bool:
        return f"/namespaces/{other.name}/pods" in call.path and call.verb in ("list", "watch")

    def hidden() -> AbstractContextManager[Fault]:
        return proxy.having(answering(403, "Forbidden", concerns=lists_its_pods))

    with hidden():
        operator = start_behind_proxy(WATCH_NAMESPACES=f"{namespace.name},{other.name}")
        for place in (namespace, other):
            place.apply(service())
        told = eventually(lambda: other.refusal("chat"))
        assert told["reason"] == "Forbidden"
        assert "/pods" in told["message"]
        eventually(lambda: namespace.get("deployment", "chat-engine"))
        assert other.get("deployment", "chat-engine") is None
        assert operator.get("/readyz") == "ok\n"
    eventually(lambda: other.get("deployment", "chat-engine"))
    eventually(lambda: not other.refusal("chat"))
    with hidden():
        proxy.drop()
        eventually(lambda: other.refusal("chat"))
        other.apply(service("new"))
        eventually(lambda: other.refusal("new"))
        assert other.get("deployment", "new-engine") is None
        assert other.get("deployment", "chat-engine") is not None
    eventually(lambda: other.get("deployment", "new-engine"))
    eventually(lambda: not other.refusal("new"))
    assert operator.process.poll() is None
