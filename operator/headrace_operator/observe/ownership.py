"""Which pods are a service's own: those that reach it by controller uids, pod -> ReplicaSet -> Deployment ->
service.

A label or a name proves nothing: whoever may create pods can copy them. ReplicaSets are not watched; each is
read by name, its uid compared, and its controller remembered. One that is another Deployment's is asked about
again after a while: a Deployment that was deleted alone leaves ReplicaSets that the next one adopts.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.kinds import REPLICA_SETS

REMEMBERED = 10_000
ASK_AGAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class _Answer:
    controller: str | None
    at_s: float


class PodOwnership:
    """`clock` is monotonic seconds."""

    def __init__(self, client: KubeClient, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        """By ReplicaSet uid, the latest asked last."""

    async def owned(
        self, pods: Iterable[dict[str, Any]], *, deployment: Mapping[str, Any] | None, service_uid: str
    ) -> list[dict[str, Any]]:
        """Those of `pods` that `deployment` controls, which itself the service must control."""
        if deployment is None or controller_uid(deployment) != service_uid:
            return []
        return [pod for pod in pods if await self._is_of(pod, deployment)]

    async def _is_of(self, pod: Mapping[str, Any], deployment: Mapping[str, Any]) -> bool:
        reference, owner = _controller(pod), deployment["metadata"]
        if reference is None or reference.get("kind") != REPLICA_SETS.kind:
            return False
        uid, name = reference.get("uid"), reference.get("name")
        if not isinstance(uid, str) or not isinstance(name, str) or not name.startswith(owner["name"] + "-"):
            return False
        known = self._answers.get(uid)
        is_stale = known is not None and self._clock() - known.at_s > ASK_AGAIN_S
        if known is None or (is_stale and known.controller != owner["uid"]):
            known = await self._ask(uid, pod["metadata"]["namespace"], name)
        return known.controller == owner["uid"]

    async def _ask(self, uid: str, namespace: str, name: str) -> _Answer:
        found = await self._client.get(REPLICA_SETS, namespace, name)
        is_it = found is not None and found["metadata"]["uid"] == uid
        answer = _Answer(controller_uid(found) if found is not None and is_it else None, self._clock())
        self._answers[uid] = answer
        self._answers.move_to_end(uid)
        while len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)
        return answer


def controller_uid(obj: Mapping[str, Any]) -> str | None:
    """The uid of the object's controller, None where it has none."""
    reference = _controller(obj)
    uid = reference.get("uid") if reference else None
    return uid if isinstance(uid, str) else None


def controller_name(obj: Mapping[str, Any]) -> str | None:
    """The name of the object's controller, None where it has none."""
    reference = _controller(obj)
    name = reference.get("name") if reference else None
    return name if isinstance(name, str) else None


def _controller(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller") is True), None)
