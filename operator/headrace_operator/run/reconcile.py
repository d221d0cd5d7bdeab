"""One service, once: observe -> decide -> act -> look again later.

Level-triggered: it takes a key and nothing of what woke it, so it may run at any time, twice, or late. What
the API server refuses becomes a condition before it becomes an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace_operator.api.spec import Invalid, ServiceSpec
from headrace_operator.api.status_reading import read
from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Observation, Refused
from headrace_operator.decide.plan import Plan
from headrace_operator.decide.refusal import FORBIDDEN, WRITE_REFUSED, refuse_access
from headrace_operator.decide.settings import Settings
from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.kinds import DEPLOYMENTS, INFERENCE_SERVICES, Key
from headrace_operator.kube.store import Store
from headrace_operator.observe.assemble import assemble
from headrace_operator.observe.autoscalers import autoscalers_of
from headrace_operator.observe.children import ChildrenView
from headrace_operator.observe.collector import Collector
from headrace_operator.observe.ownership import PodOwnership
from headrace_operator.observe.specs import Specs
from headrace_operator.run.act import Acted, Actor, NameTakenError
from headrace_operator.run.rest import Rest, is_at_rest

ENGINE_RETRY_S = 2.0
NAME_CONFLICT = "NameConflict"
"""Said by a condition where an object of somebody else's has a child's name."""


@dataclass(frozen=True, slots=True)
class _Look:
    """At one service, as it was when the look began."""

    key: Key
    service: Mapping[str, Any]
    spec: ServiceSpec | Invalid
    now_s: float


@dataclass(frozen=True, slots=True)
class Reconciler:
    """`wall_clock` is Unix seconds: what was decided when is remembered in status, across restarts."""

    store: Store
    coverage: Coverage
    specs: Specs
    children: ChildrenView
    ownership: PodOwnership
    collector: Collector
    actor: Actor
    settings: Settings
    rest: Rest
    interval_s: float
    wall_clock: Callable[[], float]
    count_decision: Callable[[str, str], None]
    """Told each decision that begins to be in force."""

    async def reconcile(self, key: Key) -> float | None:
        """Seconds after which to look again; None where there is nothing (any more) to look at."""
        service = self.store.get(INFERENCE_SERVICES, *key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            self.rest.forget(key)
            self.children.forget(key)
            return None
        look = _Look(key, service, self.specs.of(service), self.wall_clock())
        try:
            observation = await self._observe(look)
        except KubeError as error:
            if error.is_refused:
                previous, generation = read(service.get("status")), service["metadata"]["generation"]
                told = refuse_access(previous, generation, _refused(error), now_s=look.now_s)
                await self.actor.act(told, service=service, observation=Observation({}, previous))
            raise
        plan = self._decide(look, observation)
        acted = await self._act(look, plan, observation)
        intervals = self.rest.intervals(key, at_rest=is_at_rest(plan, observation, look.spec))
        wake_after_s = min(intervals * self.interval_s, plan.wake_after_s or float("inf"))
        return min(wake_after_s, ENGINE_RETRY_S) if acted.engine_errors else wake_after_s

    def _decide(self, look: _Look, observation: Observation) -> Plan:
        return decide(observation, look.spec, settings=self.settings, now_s=look.now_s)

    async def _act(self, look: _Look, plan: Plan, observation: Observation) -> Acted:
        """Carries the plan out. What the API server refuses of it is told by the status, then raised."""
        try:
            acted = await self.actor.act(plan, service=look.service, observation=observation)
        except NameTakenError:
            self.children.doubt(look.key)
            raise
        self._count(plan, observation)
        told_at_s, windows = self.wall_clock(), self.collector.windows_of(look.service["metadata"]["uid"])
        windows.told |= {pod_uid: (told_at_s, limits) for pod_uid, limits in acted.limits.items()}
        if acted.refused is not None:
            observation = replace(observation, refused=_refused(acted.refused))
            told = self._decide(look, observation).words
            await self.actor.act(told, service=look.service, observation=observation)
            raise acted.refused
        return acted

    def _count(self, plan: Plan, observation: Observation) -> None:
        decision = (plan.status or {}).get("decision")
        if decision is not None and decision["id"] != observation.previous.decision_id:
            self.count_decision(decision["action"], decision["reason"])

    async def _observe(self, look: _Look) -> Observation:
        key, service = look.key, look.service
        blind = self.coverage.blind_in(key.namespace)
        if blind is not None:
            raise blind.with_traceback(None)
        uid, previous = service["metadata"]["uid"], read(service.get("status"))
        if any(condition.reason == NAME_CONFLICT for condition in previous.conditions):
            self.children.doubt(key)
        children = await self.children.of(key)
        labelled, deployment = self.store.pods_of(key), children.get(DEPLOYMENTS.kind)
        pods = await self.ownership.owned(labelled, deployment=deployment, service_uid=uid)
        observation = assemble(
            service,
            look.spec,
            children=children,
            pods=pods,
            foreign_pods=[pod for pod in labelled if pod not in pods],
            good_template=await self.children.good_template(previous.rollout, deployment),
            autoscalers=autoscalers_of(key, store=self.store, coverage=self.coverage),
            windows=self.collector.windows_of(uid),
            scrape_interval_s=self.settings.scrape_interval_s,
            now_s=look.now_s,
        )
        deaf = self.coverage.deaf_in(key.namespace)
        return observation if deaf is None else replace(observation, refused=_refused(deaf))


def _refused(error: KubeError) -> Refused:
    return Refused(FORBIDDEN if error.is_forbidden else WRITE_REFUSED, error.message)
