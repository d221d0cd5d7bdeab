"""The scrape loop: every pod of every service, each interval, into that service's windows.

Only the leader scrapes, so that standbys cost the engines nothing; a new leader therefore begins with empty
windows and its decisions hold until they are full. Scraping writes nothing and wakes nobody.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from headrace_operator.api.names import HTTP_PORT, engine_name
from headrace_operator.api.spec import Invalid
from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.kinds import DEPLOYMENTS, Key
from headrace_operator.kube.store import Store
from headrace_operator.observe.exposition import Exposition
from headrace_operator.observe.ownership import PodOwnership
from headrace_operator.observe.pods import is_scrapable
from headrace_operator.observe.sample import sample
from headrace_operator.observe.scraper import ScrapeFailure, Scraper, Target, is_pod_address
from headrace_operator.observe.specs import Specs
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import HEADRACE

logger = logging.getLogger(__name__)


DEFAULT_WINDOW_S = 300.0
"""Of a service whose spec cannot be read."""


class Collector:
    """`wall_clock` is Unix seconds; `count` is told the outcome of each scrape."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        scraper: Scraper,
        ownership: PodOwnership,
        interval_s: float,
        wall_clock: Callable[[], float],
        is_leader: Callable[[], bool],
        count: Callable[[str], None],
    ) -> None:
        self._store = store
        self._specs = specs
        self._scraper = scraper
        self._ownership = ownership
        self._interval_s = interval_s
        self._wall_clock = wall_clock
        self._is_leader = is_leader
        self._count = count
        self._windows: dict[str, ServiceWindows] = {}

    def windows_of(self, service_uid: str) -> ServiceWindows:
        return self._windows.get(service_uid) or ServiceWindows()

    async def run(self) -> None:
        while True:
            if self._is_leader():
                await self.round()
            else:
                self._windows.clear()
            await asyncio.sleep(self._interval_s)

    async def round(self) -> None:
        """Scrape everything once. What fails is left out; nothing is raised for a pod's sake."""
        services = {service["metadata"]["uid"]: (key, service) for key, service in self._store.services()}
        for gone in self._windows.keys() - services.keys():
            del self._windows[gone]
        service_of: dict[Target, Mapping[str, Any]] = {}
        for uid, (key, service) in services.items():
            for target in await self._targets(key, uid):
                service_of[target] = service
        results = await self._scraper.scrape_all(list(service_of), wanted=HEADRACE.wanted)
        self._record(results, service_of)

    async def _targets(self, key: Key, service_uid: str) -> list[Target]:
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

    def _record(
        self,
        results: Mapping[Target, Exposition | ScrapeFailure],
        service_of: Mapping[Target, Mapping[str, Any]],
    ) -> None:
        at_s = self._wall_clock()
        for target, result in results.items():
            if isinstance(result, ScrapeFailure):
                self._count(result.reason)
                logger.debug(
                    "scrape failed: %s: %s", result.reason, result.message, extra={"pod": target.pod_uid}
                )
                continue
            self._count("Ok")
            service = service_of[target]
            window_s = self._window_s(service)
            self._windows.setdefault(service["metadata"]["uid"], ServiceWindows()).record(
                target.pod_uid,
                sample(result, metrics=HEADRACE, at_s=at_s),
                longest_break_s=window_s,
                retention_s=window_s,
            )

    def _window_s(self, service: Mapping[str, Any]) -> float:
        """The longest span that anybody asks the windows for."""
        spec = self._specs.of(service)
        if isinstance(spec, Invalid):
            return DEFAULT_WINDOW_S
        return max(spec.slo.window_s, spec.tuning.interval_s)
