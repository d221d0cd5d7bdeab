"""One service, once: observe -> decide -> act -> look again later.

Level-triggered: it takes a key and nothing of what woke it, so it may run at any time, twice, or late.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace_operator.api.spec import ServiceSpec
from headrace_operator.decide.controller import decide
from headrace_operator.decide.settings import Settings
from headrace_operator.kube.kinds import DEPLOYMENTS, INFERENCE_SERVICES, Key
from headrace_operator.kube.store import Store
from headrace_operator.observe.assemble import assemble
from headrace_operator.observe.children import ChildrenView
from headrace_operator.observe.collector import Collector
from headrace_operator.observe.ownership import PodOwnership
from headrace_operator.observe.specs import Specs
from headrace_operator.run.act import Actor

ENGINE_RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class Reconciler:
    """`wall_clock` is Unix seconds: what was decided when is remembered in status, across restarts."""

    store: Store
    specs: Specs
    children: ChildrenView
    ownership: PodOwnership
    collector: Collector
    actor: Actor
    settings: Settings
    interval_s: float
    wall_clock: Callable[[], float]

    async def reconcile(self, key: Key) -> float | None:
        """Seconds after which to look again; None where there is nothing (any more) to look at."""
        service = self.store.get(INFERENCE_SERVICES, *key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            return None
        uid, spec, now_s = service["metadata"]["uid"], self.specs.of(service), self.wall_clock()
        children = await self.children.of(key, ask=isinstance(spec, ServiceSpec))
        pods = await self.ownership.owned(
            self.store.pods_of(key), deployment=children.get(DEPLOYMENTS.kind), service_uid=uid
        )
        windows = self.collector.windows_of(uid)
        observation = assemble(
            service,
            spec,
            children=children,
            pods=pods,
            windows=windows,
            scrape_interval_s=self.settings.scrape_interval_s,
            now_s=now_s,
        )
        plan = decide(observation, spec, settings=self.settings, now_s=now_s)
        acted = await self.actor.act(plan, service=service, observation=observation)
        windows.told |= {pod_uid: (self.wall_clock(), limits) for pod_uid, limits in acted.limits.items()}
        wake_after_s = min(self.interval_s, plan.wake_after_s or self.interval_s)
        return min(wake_after_s, ENGINE_RETRY_S) if acted.engine_errors else wake_after_s
