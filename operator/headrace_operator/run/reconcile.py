"""One service, once: observe -> decide -> act -> look again later.

Level-triggered: it takes a key and nothing of what woke it, so it may run at any time, twice, or late.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from headrace_operator.api.names import engine_name
from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.settings import Settings
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.kinds import CHILDREN, DEPLOYMENTS, INFERENCE_SERVICES, SERVICES, Key
from headrace_operator.kube.store import Store
from headrace_operator.observe.assemble import assemble
from headrace_operator.observe.collector import Collector
from headrace_operator.observe.ownership import PodOwnership
from headrace_operator.observe.specs import Specs
from headrace_operator.run.act import Actor

logger = logging.getLogger(__name__)

ENGINE_RETRY_S = 2.0


class Reconciler:
    """`wall_clock` is Unix seconds: decisions are remembered in status across restarts."""

    def __init__(
        self,
        *,
        client: KubeClient,
        store: Store,
        specs: Specs,
        collector: Collector,
        ownership: PodOwnership,
        actor: Actor,
        settings: Settings,
        interval_s: float,
        wall_clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._store = store
        self._specs = specs
        self._collector = collector
        self._ownership = ownership
        self._actor = actor
        self._settings = settings
        self._interval_s = interval_s
        self._wall_clock = wall_clock

    async def reconcile(self, key: Key) -> float | None:
        """Seconds after which to look again; None where there is nothing (any more) to look at."""
        service = self._store.get(INFERENCE_SERVICES, *key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            return None
        spec, now_s = self._specs.of(service), self._wall_clock()
        children = await self._children(key)
        pods = await self._ownership.owned(
            self._store.pods_of(key),
            deployment=children.get(DEPLOYMENTS.kind),
            service_uid=service["metadata"]["uid"],
        )
        windows = self._collector.windows_of(service["metadata"]["uid"])
        observation: Observation = assemble(
            service,
            spec,
            children=children,
            pods=pods,
            windows=windows,
            scrape_interval_s=self._settings.scrape_interval_s,
            now_s=now_s,
        )
        plan = decide(observation, spec, settings=self._settings, now_s=now_s)
        acted = await self._actor.act(plan, service=service, observation=observation)
        windows.told |= {uid: (self._wall_clock(), limits) for uid, limits in acted.limits.items()}
        wake_after_s = min(self._interval_s, plan.wake_after_s or self._interval_s)
        return min(wake_after_s, ENGINE_RETRY_S) if acted.engine_errors else wake_after_s

    async def _children(self, key: Key) -> dict[str, Mapping[str, Any]]:
        """What lives under the names of our children, ours or not. What the store lacks is asked for: it
        holds labelled objects only, and a foreign object of our name may well have no label.
        """
        found: dict[str, Mapping[str, Any]] = {}
        for kind in CHILDREN:
            name = key.name if kind is SERVICES else engine_name(key.name)
            live = self._store.get(kind, key.namespace, name) or await self._client.get(
                kind, key.namespace, name
            )
            if live is not None:
                found[kind.kind] = live
        return found
