"""A namespace of a test's own, to put objects into and to look at what becomes of them."""

import secrets
import time
from dataclasses import dataclass
from typing import Any

from kube_objects import KubeObjects, Object

from headrace_local.cluster import Cluster


@dataclass
class Namespace:
    """Objects by HTTP, and `kubectl` where its own behavior is meant."""

    cluster: Cluster
    objects: KubeObjects
    name: str

    @classmethod
    def create(cls, objects: KubeObjects, name: str | None = None, **labels: str) -> "Namespace":
        """`name` is chosen where it does not matter."""
        namespace = cls(objects.cluster, objects, name or f"t-{secrets.token_hex(4)}")
        metadata = {"name": namespace.name, "labels": labels}
        objects.create(None, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return namespace

    def leave(self) -> None:
        """Ask for its end and do not wait for it."""
        self.objects.delete("namespace", None, self.name, wait=False)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin)

    def get(self, kind: str, name: str) -> Object | None:
        return self.objects.get(kind, self.name, name)

    def find(self, kind: str, selector: str = "") -> list[Object]:
        return self.objects.find(kind, self.name, selector)

    def apply(self, *manifests: Object) -> None:
        for manifest in manifests:
            self.objects.apply(self.name, manifest)

    def patch(self, kind: str, name: str, patch: Any, *, subresource: str = "") -> None:
        self.objects.patch(kind, self.name, name, patch, subresource=subresource)

    def touch(self, name: str) -> None:
        """An edit of a service that asks for nothing: whoever steers it looks at it at once."""
        self.patch("infs", name, {"metadata": {"annotations": {"touched": secrets.token_hex(4)}}})

    def delete(self, kind: str, name: str, *, wait: bool = True) -> None:
        self.objects.delete(kind, self.name, name, wait=wait)

    def condition(self, name: str, type_: str) -> Object | None:
        status = (self.get("infs", name) or {}).get("status") or {}
        return next((found for found in status.get("conditions", []) if found["type"] == type_), None)

    def refusal(self, name: str) -> Object | None:
        """Why the service is not accepted; None where it is, or nobody has said yet."""
        accepted = self.condition(name, "Accepted")
        return accepted if accepted and accepted["status"] == "False" else None

    def events(self, name: str) -> list[Object]:
        return [event for event in self.find("events") if event["involvedObject"]["name"] == name]

    def run_pod(self, pod: Object, *, ip: str) -> None:
        """What the kubelet would report of a pod whose engine runs and is ready."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": type_, "status": "True", "lastTransitionTime": now}
            for type_ in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        container = {
            "name": pod["spec"]["containers"][0]["name"],
            "image": "stub",
            "imageID": "stub",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        status = {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "startTime": now,
            "conditions": conditions,
            "containerStatuses": [container],
        }
        self.patch("pod", pod["metadata"]["name"], {"status": status}, subresource="status")
