"""What lives under the names of a service's children, whoever made it."""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace_operator.api.names import engine_name
from headrace_operator.api.rollout_memory import RolloutMemory
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.kinds import CHILDREN, REPLICA_SETS, SERVICES, Key, Kind
from headrace_operator.kube.store import Store
from headrace_operator.observe.revisions import kept_template


class ChildrenView:
    def __init__(self, client: KubeClient, store: Store, *, kinds: Iterable[Kind] = CHILDREN) -> None:
        self._client = client
        self._store = store
        self._kinds = tuple(kinds)

    async def of(self, key: Key, *, ask: bool) -> dict[str, Mapping[str, Any]]:
        """By kind. With `ask`, what the store lacks is read from the server: the store holds labelled objects
        only, and a foreign object of our name may well have no label.
        """
        found: dict[str, Mapping[str, Any]] = {}
        for kind in self._kinds:
            name = key.name if kind is SERVICES else engine_name(key.name)
            child = self._store.get(kind, key.namespace, name)
            if child is None and ask:
                child = await self._client.get(kind, key.namespace, name)
            if child is not None:
                found[kind.kind] = child
        return found

    async def good_template(
        self, memory: RolloutMemory | None, deployment: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        """The pod template to go back to; None where all is well, or where it is not to be had."""
        if memory is None or memory.good is None or deployment is None:
            return None
        if not memory.is_under_way and memory.failed is None:
            return None
        namespace = deployment["metadata"]["namespace"]
        kept = await self._client.get(REPLICA_SETS, namespace, memory.good.replica_set)
        return None if kept is None else kept_template(kept, memory.good, deployment)
