"""Whom to scrape, each interval, of a thousand services: only what changed is worked out anew."""

from typing import Any

from headrace_operator.api.spec import Runtime
from headrace_operator.kube.kinds import DEPLOYMENTS, INFERENCE_SERVICES, PODS, WATCHED
from headrace_operator.kube.store import Store
from headrace_operator.observe.targets import Targets


class Ownership:
    """Owns the pods whose names are told; counts how often it is asked."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked = set(names), 0

    async def owned(self, pods: Any, **_: Any) -> list[dict[str, Any]]:
        self.asked += 1
        return [pod for pod in pods if pod["metadata"]["name"] in self.names]


def meta(name: str, version: int, **more: Any) -> dict[str, Any]:
    labels = {"headrace.dev/inferenceservice": "chat"}
    return {"namespace": "default", "name": name, "uid": name, "resourceVersion": str(version)} | {
        "labels": labels,
        **more,
    }


def pod(name: str, version: int, *, ip: str = "10.0.0.1", **engine: Any) -> dict[str, Any]:
    status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}
    running = [{"name": "engine", "state": {"running": {"startedAt": "2027-01-15T07:00:00Z"}}, "ready": True}]
    return {
        "metadata": meta(name, version),
        "spec": {"containers": [{"name": "engine", **engine}]},
        "status": {**status, "containerStatuses": running},
    }


def filled() -> Store:
    store = Store(WATCHED, wake=lambda _key: None)
    store.put(INFERENCE_SERVICES, {"metadata": meta("chat", 1)})
    store.put(DEPLOYMENTS, {"metadata": meta("chat-engine", 2)})
    store.put(PODS, pod("a", 3))
    return store


async def ips(targets: Targets) -> list[str]:
    return [target.ip for target, _ in await targets.all()]


async def test_where_nothing_changed_nothing_is_asked():
    ownership = Ownership("a")
    targets = Targets(filled(), ownership)
    assert await ips(targets) == await ips(targets) == ["10.0.0.1"]
    assert ownership.asked == 1


async def test_a_pod_that_changes_is_seen_in_the_next_round():
    store, ownership = filled(), Ownership("a", "b")
    targets = Targets(store, ownership)
    await targets.all()
    store.put(PODS, pod("a", 4, ip="10.0.0.9"))
    store.put(PODS, pod("b", 5, ip="10.0.0.8"))
    assert await ips(targets) == ["10.0.0.9", "10.0.0.8"]
    store.remove(PODS, pod("a", 6))
    assert await ips(targets) == ["10.0.0.8"]


async def test_each_pod_is_read_as_the_engine_that_it_runs_whatever_the_spec_says_now():
    """While pods are replaced by those of another runtime, and after a rollback from there."""
    store = filled()
    store.put(PODS, pod("b", 5, command=["vllm", "serve"]))
    targets = await Targets(store, Ownership("a", "b")).all()
    assert [target.runtime for target, _ in targets] == [Runtime.HEADRACE, Runtime.VLLM]


async def test_a_pod_that_is_not_ours_yet_is_asked_about_again():
    store, ownership = filled(), Ownership()
    targets = Targets(store, ownership)
    assert await ips(targets) == []
    ownership.names = {"a"}
    assert await ips(targets) == ["10.0.0.1"]


async def test_a_service_made_again_finds_pods_of_its_own():
    store, ownership = filled(), Ownership("a")
    targets = Targets(store, ownership)
    await targets.all()
    store.remove(INFERENCE_SERVICES, {"metadata": meta("chat", 7)})
    assert await ips(targets) == []
    ownership.names = set()
    store.put(INFERENCE_SERVICES, {"metadata": meta("chat", 8, uid="new")})
    assert await ips(targets) == []
    assert ownership.asked == 2
