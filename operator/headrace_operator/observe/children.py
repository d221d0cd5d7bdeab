"""What lives under the names of a service's children, whoever made it."""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import engine_name
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.kinds import CHILDREN, SERVICES, Key
from headrace_operator.kube.store import Store


class ChildrenView:
    def __init__(self, client: KubeClient, store: Store) -> None:
        self._client = client
        self._store = store

    async def of(self, key: Key, *, ask: bool) -> dict[str, Mapping[str, Any]]:
        """By kind. With `ask`, what the store lacks is read from the server: the store holds labelled objects
        only, and a foreign object of our name may well have no label.
        """
        found: dict[str, Mapping[str, Any]] = {}
        for kind in CHILDREN:
            name = key.name if kind is SERVICES else engine_name(key.name)
            child = self._store.get(kind, key.namespace, name)
            if child is None and ask:
                child = await self._client.get(kind, key.namespace, name)
            if child is not None:
                found[kind.kind] = child
        return found
