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

logger = logging.getLogger(__name__)


class Targets:
    def __init__(self, store: Store, ownership: PodOwnership) -> None:
        self._store = store
        self._ownership = ownership

    def service_uids(self) -> set[str]:
        return {service["metadata"]["uid"] for _, service in self._store.services()}

    async def all(self) -> list[tuple[Target, Mapping[str, Any]]]:
        """Each target with its service. A service whose pods cannot be told from others' has none."""
        return [
            (target, service)
            for key, service in self._store.services()
            for target in await self._of(key, service["metadata"]["uid"])
        ]

    async def _of(self, key: Key, service_uid: str) -> list[Target]:
        deployment = self._store.get(DEPLOYMENTS, key.namespace, engine_name(key.name))
        candidates = [pod for pod in self._store.pods_of(key) if is_scrapable(pod)]
        try:
            owned = await self._ownership.owned(candidates, deployment=deployment, service_uid=service_uid)
        except (KubeError, KubeUnreachableError) as error:
            logger.warning("cannot tell which pods are the service's own: %s", error, extra={"key": str(key)})
            return []
        return [
            Target(pod["metadata"]["uid"], pod["status"]["podIP"], HTTP_PORT)
            for pod in owned
            if is_pod_address(pod["status"]["podIP"])
        ]
