"""Which pods are a service's own: those that reach it by controller uids, pod -> ReplicaSet -> Deployment ->
service.

A label or a name proves nothing: whoever may create pods can copy them. ReplicaSets are not watched; each is
read once, by name, and its uid compared.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.kinds import REPLICA_SETS

REMEMBERED = 10_000


class PodOwnership:
    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._controller_of: OrderedDict[str, str | None] = OrderedDict()
        """ReplicaSet uid -> uid of its controller. Both are immutable in practice: a ReplicaSet is adopted
        once."""

    async def owned(
        self, pods: Iterable[dict[str, Any]], *, deployment: Mapping[str, Any] | None, service_uid: str
    ) -> list[dict[str, Any]]:
        """Those of `pods` that `deployment` controls, which itself the service must control."""
        if deployment is None or controller_uid(deployment) != service_uid:
            return []
        uid, prefix = deployment["metadata"]["uid"], deployment["metadata"]["name"] + "-"
        return [pod for pod in pods if await self._deployment_of(pod, prefix) == uid]

    async def _deployment_of(self, pod: Mapping[str, Any], prefix: str) -> str | None:
        reference = _controller(pod)
        if reference is None or reference.get("kind") != REPLICA_SETS.kind:
            return None
        uid, name = reference.get("uid"), reference.get("name")
        if not isinstance(uid, str) or not isinstance(name, str) or not name.startswith(prefix):
            return None
        if uid not in self._controller_of:
            found = await self._client.get(REPLICA_SETS, pod["metadata"]["namespace"], name)
            if found is None or found["metadata"]["uid"] != uid:
                return None
            self._controller_of[uid] = controller_uid(found)
            while len(self._controller_of) > REMEMBERED:
                self._controller_of.popitem(last=False)
        return self._controller_of[uid]


def controller_uid(obj: Mapping[str, Any]) -> str | None:
    """The uid of the object's controller, None where it has none."""
    reference = _controller(obj)
    uid = reference.get("uid") if reference else None
    return uid if isinstance(uid, str) else None


def _controller(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller") is True), None)
