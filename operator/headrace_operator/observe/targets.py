"""Whom to scrape: the pods that a service owns, whose engine runs, at an address that a pod can have."""

import logging
from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import HTTP_PORT, engine_name
from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.kinds import DEPLOYMENTS, Key
from headrace_operator.kube.store import Store
from headrace_operator.observe.ownership import PodOwnership
from headrace_operator.observe.pods import is_scrapable
from headrace_operator.observe.scraper import Target, is_pod_address
from headrace_operator.runtimes.registry import runtime_of

logger = logging.getLogger(__name__)


class Targets:
    def __init__(self, store: Store, ownership: PodOwnership) -> None:
        self._store = store
        self._ownership = ownership
        self._found: dict[Key, tuple[int, list[Target]]] = {}
        """With the revision of the store that they were found at; only where every candidate was the
        service's own, for what another's pod becomes is not told to the store.
        """

    def service_uids(self) -> set[str]:
        return {service["metadata"]["uid"] for _, service in self._store.services()}

    async def all(self) -> list[tuple[Target, Mapping[str, Any]]]:
        """Each target with its service. A service whose pods cannot be told from others' has none."""
        services = list(self._store.services())
        for gone in self._found.keys() - {key for key, _ in services}:
            del self._found[gone]
        return [
            (target, service)
            for key, service in services
            for target in await self._of(key, service["metadata"]["uid"])
        ]

    async def _of(self, key: Key, service_uid: str) -> list[Target]:
        revision = self._store.revision(key)
        known_at, known = self._found.get(key, (None, []))
        if known_at == revision:
            return known
        targets, is_final = await self._find(key, service_uid)
        if is_final:
            self._found[key] = (revision, targets)
        return targets

    async def _find(self, key: Key, service_uid: str) -> tuple[list[Target], bool]:
        """And whether that stands until the store changes."""
        deployment = self._store.get(DEPLOYMENTS, key.namespace, engine_name(key.name))
        candidates = [pod for pod in self._store.pods_of(key) if is_scrapable(pod)]
        try:
            owned = await self._ownership.owned(candidates, deployment=deployment, service_uid=service_uid)
        except (KubeError, KubeUnreachableError) as error:
            logger.warning("cannot tell which pods are the service's own: %s", error, extra={"key": str(key)})
            return [], False
        targets = [
            Target(
                pod["metadata"]["uid"], pod["status"]["podIP"], HTTP_PORT, runtime_of(pod.get("spec") or {})
            )
            for pod in owned
            if is_pod_address(pod["status"]["podIP"])
        ]
        return targets, len(owned) == len(candidates)
