"""Nodes that do not exist, and what their kubelets would say: pods placed on them run and are ready at once.

For tests of scale beside a control plane without a node. It runs in a thread of its own, as administrator.
"""

import asyncio
import itertools
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import orjson

from headrace_local.cluster import Cluster
from headrace_local.pki import Pki

T = TypeVar("T")
PODS_PER_NODE = 110
HEARTBEAT_S = 15.0
WATCH_AGAIN_S = 0.1
AT_ONCE = 16
MERGE = {"Content-Type": "application/merge-patch+json"}


@dataclass(slots=True)
class SimulatedNodes:
    """Room for `pods` pods; an address that no pod answers at is given to each."""

    cluster: Cluster
    pods: int
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _session: aiohttp.ClientSession | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _addresses: Iterator[Any] = field(default_factory=lambda: iter(()))
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def start(self) -> None:
        self._addresses = itertools.cycle(list(self.cluster.addresses.pods.hosts())[10:])
        self._thread = threading.Thread(target=self._loop.run_forever, name="kubelets", daemon=True)
        self._thread.start()
        self._run(self._start())

    def stop(self) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join(5)
        self._loop.close()

    def create(self, path: str, manifests: Iterable[dict[str, Any]]) -> None:
        """POST them all, several at once: kubectl would take a while."""
        self._run(self._create(path, manifests))

    def objects(self, path: str) -> list[dict[str, Any]]:
        return self._run(self._list(path))["items"]

    def follow(self, path: str) -> dict[str, dict[str, Any]]:
        """Every object of a collection by uid, kept up to date by a watch until the nodes are stopped."""
        found: dict[str, dict[str, Any]] = {}
        self._run(self._begin(self._follow(path, found)))
        return found

    def _run(self, work: Awaitable[T]) -> T:
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop).result(300)

    async def _start(self) -> None:
        pki = Pki(self.cluster.state.pki)
        context = ssl.create_default_context(cafile=str(pki.authority.certificate))
        context.load_cert_chain(pki.admin.certificate, pki.admin.key)
        self._session = aiohttp.ClientSession(
            self.cluster.url,
            connector=aiohttp.TCPConnector(limit=0, ssl=context),
            timeout=aiohttp.ClientTimeout(total=None),
            json_serialize=lambda document: orjson.dumps(document).decode(),
            read_bufsize=1 << 21,
            # On one machine, compression costs the API server more than it saves.
            headers={"Accept-Encoding": "identity"},
            trust_env=False,
        )
        names = [f"simulated-{number}" for number in range(-(-self.pods // PODS_PER_NODE))]
        for name in names:
            await self._add_node(name)
        self._tasks = [
            asyncio.create_task(self._beat(names)),
            asyncio.create_task(self._run_pods()),
        ]

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for node in await self._names("/api/v1/nodes"):
            await self._ask("DELETE", f"/api/v1/nodes/{node}")
        assert self._session is not None
        await self._session.close()

    async def _add_node(self, name: str) -> None:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        await self._ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        room = {"cpu": "1k", "memory": "1Ti", "pods": str(PODS_PER_NODE), "ephemeral-storage": "1Ti"}
        status = {"capacity": room, "allocatable": room, "conditions": [_true("Ready")]}
        await self._ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})

    async def _beat(self, names: list[str]) -> None:
        """Each node's Lease: else its pods are evicted."""
        place = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        for name in names:
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now_precise()}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
            await self._ask("POST", place, lease | {"spec": spec})
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            for name in names:
                await self._ask("PATCH", f"{place}/{name}", {"spec": {"renewTime": _now_precise()}})

    async def _run_pods(self) -> None:
        async with asyncio.TaskGroup() as kubelets:
            while True:
                async for event in self._watch("/api/v1/pods", fieldSelector="spec.nodeName!="):
                    pod = event["object"]
                    if event["type"] == "DELETED":
                        continue
                    if "deletionTimestamp" in pod["metadata"]:
                        kubelets.create_task(self._end(pod))
                    elif pod["status"]["phase"] == "Pending":
                        kubelets.create_task(self._make_ready(pod))

    async def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _follow(self, path: str, found: dict[str, dict[str, Any]]) -> None:
        while True:
            found.clear()
            async for event in self._watch(path):
                uid = event["object"]["metadata"]["uid"]
                if event["type"] == "DELETED":
                    found.pop(uid, None)
                else:
                    found[uid] = event["object"]

    async def _make_ready(self, pod: dict[str, Any]) -> None:
        ip = str(next(self._addresses))
        conditions = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodScheduled")
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": _now()}},
            }
            for container in pod["spec"]["containers"]
        ]
        status = {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "startTime": _now(),
            "conditions": [_true(name) for name in conditions],
            "containerStatuses": containers,
        }
        await self._ask("PATCH", f"{_path(pod)}/status", {"status": status})

    async def _end(self, pod: dict[str, Any]) -> None:
        await self._ask("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    async def _create(self, path: str, manifests: Iterable[dict[str, Any]]) -> None:
        await asyncio.gather(*(self._ask("POST", path, manifest) for manifest in manifests))

    async def _names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self._list(path))["items"]]

    async def _list(self, path: str) -> dict[str, Any]:
        assert self._session is not None
        async with self._session.get(path) as answer:
            found: dict[str, Any] = orjson.loads(await answer.read())
            return found

    async def _watch(self, path: str, **selectors: str) -> AsyncIterator[dict[str, Any]]:
        """From what is there now on, until the server ends it, as it does with whoever reads too slowly."""
        assert self._session is not None
        with suppress(aiohttp.ClientError):
            async with self._session.get(path, params={"watch": "1", **selectors}) as answer:
                held = b""
                async for chunk in answer.content.iter_any():
                    *whole, held = (held + chunk).split(b"\n")
                    for line in whole:
                        event = orjson.loads(line)
                        if event["type"] != "ERROR":
                            yield event
        await asyncio.sleep(WATCH_AGAIN_S)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        assert self._session is not None
        headers = MERGE if method == "PATCH" else {}
        async with (
            self._slots,
            self._session.request(method, path, json=body, headers=headers) as answer,
        ):
            if answer.status >= 300 and answer.status not in (404, 409):
                raise AssertionError(f"{method} {path}: {answer.status} {(await answer.text())[:500]}")


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def _path(pod: dict[str, Any]) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _true(type_: str) -> dict[str, str]:
    return {"type": type_, "status": "True", "reason": "Simulated", "lastTransitionTime": _now()}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _now_precise() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
