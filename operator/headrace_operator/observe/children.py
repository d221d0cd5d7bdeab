"""What lives under the names of a service's children, whoever made it.

The store holds labelled objects only, and a foreign object of our name may well have no label. It is not
looked for: what is missing is made on the condition that nothing is there. Where that fails, the name is in
doubt, and the server is asked about it until the doubt is gone.
"""

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
        self._doubted: set[Key] = set()

    def doubt(self, key: Key) -> None:
        """Something of the service's could not be made, for there is an object of that name."""
        self._doubted.add(key)

    def forget(self, key: Key) -> None:
        """The service is gone."""
        self._doubted.discard(key)

    async def of(self, key: Key) -> dict[str, Mapping[str, Any]]:
        """By kind. In doubt, what the store lacks is read from the server."""
        found: dict[str, Mapping[str, Any]] = {}
        is_unseen = False
        for kind in self._kinds:
            name = key.name if kind is SERVICES else engine_name(key.name)
            child = self._store.get(kind, key.namespace, name)
            if child is None and key in self._doubted:
                child = await self._client.get(kind, key.namespace, name)
                is_unseen |= child is not None
            if child is not None:
                found[kind.kind] = child
        if not is_unseen:
            self._doubted.discard(key)
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
