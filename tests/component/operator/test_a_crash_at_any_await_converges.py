"""A reconcile that is cut off at any await, as by SIGKILL, and a successor that knows only the cluster.

What it finds in the end is what an undisturbed operator would have made: nothing twice, nothing half.
"""

import time
import types
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration
from operator_builders import SETTINGS, TUNED_CHAT, merged

from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import WATCHED, Key
from headrace_operator.kube.leadership import Leadership
from headrace_operator.kube.store import Store
from headrace_operator.observe.children import ChildrenView
from headrace_operator.observe.collector import Collector
from headrace_operator.observe.ownership import PodOwnership
from headrace_operator.observe.scraper import Scraper
from headrace_operator.observe.specs import Specs
from headrace_operator.observe.targets import Targets
from headrace_operator.run.act import Actor
from headrace_operator.run.engine_calls import EngineCalls
from headrace_operator.run.reconcile import Reconciler
from headrace_operator.run.rest import Rest

NOW_S = 1_800_000_000.0
KEY = Key("default", "chat")
SERVICE = "/apis/headrace.dev/v1alpha1/namespaces/default/inferenceservices/chat"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/chat-engine"
REPLICA_SET = "/apis/apps/v1/namespaces/default/replicasets/chat-engine-5d9c"
POD = "/api/v1/namespaces/default/pods/chat-engine-5d9c-0"
ENOUGH = 400
"""More awaits than any reconcile here has."""


class CrashedError(BaseException):
    """Nothing may catch it: so ends a process that is killed."""


@types.coroutine
def cut_off(work: Coroutine[Any, Any, Any], at: int) -> Generator[Any, Any, Any]:
    """Runs `work` up to its await number `at`, and abandons it there."""
    resume, argument = work.send, None
    for _ in range(at):
        try:
            waits_for = resume(argument)
        except StopIteration as end:
            return end.value
        try:
            yield waits_for
            resume, argument = work.send, None
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is for `work`
            resume, argument = work.throw, error
    work.close()
    raise CrashedError


def owned(kind: str, name: str, uid: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": name, "uid": uid, "controller": True}]


class Cluster:
    """The API server's side: server-side apply, objects that stay when an operator dies."""

    def __init__(self, api: Any, *, pods: int, replicas: int) -> None:
        self.api = api
        api.fault = self.answer
        spec = merged(TUNED_CHAT, {"replicas": replicas})
        self.keep(SERVICE, {"metadata": {"name": "chat", "uid": "svc", "generation": 1}, "spec": spec})
        for number in range(pods):
            self.keep(f"/api/v1/namespaces/default/pods/chat-engine-5d9c-{number}", pod(number))
        replica_set = {
            "name": "chat-engine-5d9c",
            "uid": "rs",
            "ownerReferences": owned("Deployment", "", "dep"),
        }
        self.keep(REPLICA_SET, {"metadata": replica_set})

    def keep(self, path: str, body: dict[str, Any]) -> web.Response:
        group, kind = path.rpartition("/namespaces/")[0].lstrip("/").partition("/")[2], path.split("/")[-2]
        kinds = {found.plural: found for found in WATCHED}
        named = {"apiVersion": group, "kind": kinds[kind].kind} if kind in kinds else {}
        return self.api.keep(path, named | merged(body, {"metadata": {"namespace": "default"}}), 200)

    def lay(self, path: str, changes: dict[str, Any]) -> None:
        """`changes` over the object that is there."""
        self.keep(path, merged(self.api.objects[path], changes))

    async def answer(self, request: web.Request) -> web.Response | None:
        if request.method != "PATCH":
            return None
        body, path = await request.json(), request.path.removesuffix("/status")
        live = self.api.objects.get(path, {"metadata": {"uid": "dep" if path == DEPLOYMENT else path}})
        if request.path.endswith("/status"):
            return self.keep(path, {**live, "status": body["status"]})
        return self.keep(path, merged(live, body))

    def fill(self, store: Store) -> None:
        for kind in WATCHED:
            start = kind.path("default") + "/"
            items = [found for path, found in self.api.objects.items() if path.startswith(start)]
            store.replace(kind, items, resource_version=str(2**40))

    def state(self) -> dict[str, Any]:
        """Everything but Events and what only says when or how often something was written."""
        kept = {path: found for path, found in self.api.objects.items() if "/events/" not in path}
        return {
            path: {**found, "metadata": {**found["metadata"], "resourceVersion": ""}}
            for path, found in kept.items()
        }


def pod(number: int) -> dict[str, Any]:
    metadata = {
        "name": f"chat-engine-5d9c-{number}",
        "uid": f"pod-{number}",
        "creationTimestamp": "2027-01-15T07:00:00Z",
        "labels": {"headrace.dev/inferenceservice": "chat"},
        "ownerReferences": owned("ReplicaSet", "chat-engine-5d9c", "rs"),
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:01:00Z"}
    status = {"phase": "Running", "podIP": f"10.0.0.{number + 1}", "conditions": [ready]}
    return {"metadata": metadata, "status": status}


@asynccontextmanager
async def operator(cluster: Cluster) -> AsyncIterator[Reconciler]:
    """A process that has just started: it knows what the API server lists."""
    store, leadership = Store(WATCHED, wake=lambda _key: None), Leadership(time.monotonic)
    leadership.extend(time.monotonic() + 60)
    cluster.fill(store)
    client, scraper = KubeClient(Configuration(host=cluster.api.url)), Scraper()
    ownership, specs = PodOwnership(client, clock=time.monotonic), Specs()
    try:
        yield Reconciler(
            store=store,
            coverage=Coverage(WATCHED, ()),
            specs=specs,
            children=ChildrenView(client, store),
            ownership=ownership,
            collector=Collector(
                targets=Targets(store, ownership),
                specs=specs,
                scraper=scraper,
                interval_s=2.0,
                wall_clock=lambda: NOW_S,
                clock=time.monotonic,
                is_leader=leadership.valid,
                count=lambda _result: None,
                tell=lambda _key, _before, _now: None,
            ),
            actor=Actor(
                client=client,
                store=store,
                leadership=leadership,
                recorder=EventRecorder(client, instance="me", clock=time.monotonic),
                engines=EngineCalls(admin=None, leadership=leadership),
                count_write=lambda _kind: None,
            ),
            settings=SETTINGS,
            rest=Rest(lambda _key: None),
            interval_s=5.0,
            wall_clock=lambda: NOW_S,
            count_decision=lambda _action, _reason: None,
        )
    finally:
        await client.close()
        await scraper.aclose()


async def settled(cluster: Cluster) -> dict[str, Any]:
    """What a fresh operator leaves when it has nothing more to write."""
    async with operator(cluster) as fresh:
        for _ in range(5):
            before = cluster.state()
            await fresh.reconcile(KEY)
            if cluster.state() == before:
                return before
    raise AssertionError("it goes on writing")


async def created(api: Any) -> Cluster:
    """A service that nobody has looked at yet."""
    api.objects.clear()
    return Cluster(api, pods=0, replicas=2)


async def scaled_down(api: Any) -> Cluster:
    """Two pods serve, and one of them is no longer wanted."""
    api.objects.clear()
    cluster = Cluster(api, pods=2, replicas=2)
    await settled(cluster)
    cluster.lay(SERVICE, {"metadata": {"generation": 2}, "spec": {"replicas": 1}})
    return cluster


async def rollout_failed(api: Any) -> Cluster:
    """The engine of a new spec ended again and again beside that of the old one, which served."""
    api.objects.clear()
    cluster = Cluster(api, pods=1, replicas=1)
    await settled(cluster)
    served = api.objects[DEPLOYMENT]["spec"]["template"]
    cluster.lay(REPLICA_SET, {"spec": {"template": served}})
    cluster.lay(POD, {"metadata": {"annotations": served["metadata"]["annotations"]}})
    cluster.lay(DEPLOYMENT, {"status": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}})
    await settled(cluster)
    cluster.lay(SERVICE, {"metadata": {"generation": 2}, "spec": {"engine": {"threads": 2}}})
    await settled(cluster)
    new = pod(1)
    new["metadata"]["annotations"] = api.objects[DEPLOYMENT]["spec"]["template"]["metadata"]["annotations"]
    ended = {"exitCode": 1, "reason": "Error", "message": "no such model"}
    engine = {"name": "engine", "ready": False, "restartCount": 2, "state": {"terminated": ended}}
    new["status"] |= {"conditions": [], "containerStatuses": [engine]}
    cluster.keep(POD.removesuffix("0") + "1", new)
    cluster.lay(DEPLOYMENT, {"status": {"replicas": 2}})
    return cluster


@pytest.mark.parametrize("scene", [created, scaled_down, rollout_failed])
async def test_a_successor_makes_what_the_crash_left_undone(api_server, scene):
    cluster = await scene(api_server)
    before, expected = cluster.state(), await settled(cluster)
    assert expected != before
    for at in range(ENOUGH):
        cluster = await scene(api_server)
        async with operator(cluster) as doomed:
            try:
                await cut_off(doomed.reconcile(KEY), at)
            except CrashedError:
                crashed = True
            else:
                crashed = False
        assert await settled(cluster) == expected, f"cut off at await {at}"
        if not crashed:
            assert at > 10, "a reconcile that writes waits often"
            return
    raise AssertionError("a reconcile waits without end")
