"""Reconciles without a cluster: a small API server that keeps what is applied, and operators just started.

Such an operator knows no more than what that server lists.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from kubernetes.aio.client import Configuration
from operator_builders import SETTINGS, TUNED_CHAT, merged

from headrace_operator.kube.client import NOT_THERE, KubeClient
from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import SERVICE_LABEL, WATCHED, Key, Kind
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
        wanted = body["metadata"].pop("resourceVersion", None)
        if path in self.api.objects and wanted == NOT_THERE:
            return web.json_response({"reason": "Conflict", "message": f"{path} is there"}, status=409)
        live = self.api.objects.get(path, {"metadata": {"uid": "dep" if path == DEPLOYMENT else path}})
        if request.path.endswith("/status"):
            return self.keep(path, {**live, "status": body["status"]})
        return self.keep(path, merged(live, body))

    def fill(self, store: Store) -> None:
        for kind in WATCHED:
            start = kind.path("default") + "/"
            items = [
                found
                for path, found in self.api.objects.items()
                if path.startswith(start) and _is_listed(kind, found)
            ]
            store.replace(kind, items, resource_version=str(2**40))

    def state(self) -> dict[str, Any]:
        """Everything but Events and what only says when or how often something was written."""
        kept = {path: found for path, found in self.api.objects.items() if "/events/" not in path}
        return {
            path: {**found, "metadata": {**found["metadata"], "resourceVersion": ""}}
            for path, found in kept.items()
        }


def _is_listed(kind: Kind, found: dict[str, Any]) -> bool:
    return kind.label_selector is None or SERVICE_LABEL in found["metadata"].get("labels", {})


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
