"""Carries out a plan: the single writer of the cluster and of the engines.

Each write is preceded by the question whether we still lead, and ends before that answer does. An object that
exists is applied to by uid; one that must not exist yet is applied without force: so an object of our name
that is not ours stays as it is, whatever happens in between.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace_operator.api.names import CHILD_FIELD_MANAGER, STATUS_FIELD_MANAGER
from headrace_operator.api.spec import Limits
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.plan import Plan, PodAnnotations
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import INFERENCE_SERVICES, PODS, Kind, kind_of
from headrace_operator.kube.leadership import Leadership
from headrace_operator.kube.store import Store
from headrace_operator.observe.ownership import controller_uid
from headrace_operator.run.engine_calls import EngineCalls


class NameConflictError(Exception):
    """An object of a child's name exists and is not the service's: it is left untouched."""


@dataclass(frozen=True, slots=True)
class Acted:
    """`limits` by uid of the pods that took them; what an engine did not take, the next plan holds again."""

    writes: int = 0
    engine_errors: int = 0
    limits: Mapping[str, Limits] = field(default_factory=dict)


class Actor:
    def __init__(
        self,
        *,
        client: KubeClient,
        store: Store,
        leadership: Leadership,
        recorder: EventRecorder,
        engines: EngineCalls,
        count_write: Callable[[str], None],
    ) -> None:
        self._client = client
        self._store = store
        self._leadership = leadership
        self._recorder = recorder
        self._engines = engines
        self._count_write = count_write

    async def act(self, plan: Plan, *, service: Mapping[str, Any], observation: Observation) -> Acted:
        """In the plan's order. Raises `KubeError`, `KubeUnreachableError`, `NotLeadingError`."""
        writes = 0
        if plan.status is not None:
            await self._apply_status(service, plan.status)
            writes += 1
        for manifest in plan.objects:
            await self._apply_child(manifest, service, observation)
            writes += 1
        for annotate in plan.annotate:
            await self._annotate(annotate, service)
            writes += 1
        limits = await self._engines.set_limits(plan.set_limits)
        drained = await self._engines.drain(plan.drain)
        for event in plan.events:
            async with self._leadership.writing():
                await self._recorder.post(
                    service, type_=event.type, reason=event.reason, message=event.message
                )
        refused = len(plan.set_limits) - len(limits) + len(plan.drain) - drained
        return Acted(writes, refused, limits)

    async def _apply_status(self, service: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        metadata = {name: service["metadata"][name] for name in ("namespace", "name", "uid")}
        manifest = _manifest(INFERENCE_SERVICES, metadata) | {"status": status}
        await self._apply(manifest, field_manager=STATUS_FIELD_MANAGER, force=True, subresource="status")

    async def _apply_child(
        self, manifest: Mapping[str, Any], service: Mapping[str, Any], observation: Observation
    ) -> None:
        live = observation.children.get(manifest["kind"])
        if live is None:
            await self._apply(manifest, field_manager=CHILD_FIELD_MANAGER, force=False)
            return
        metadata = manifest["metadata"]
        if controller_uid(live) != service["metadata"]["uid"]:
            raise NameConflictError(f"{manifest['kind']} {metadata['name']} exists and is not the service's")
        exact = {**manifest, "metadata": {**metadata, "uid": live["metadata"]["uid"]}}
        await self._apply(exact, field_manager=CHILD_FIELD_MANAGER, force=True)

    async def _annotate(self, annotate: PodAnnotations, service: Mapping[str, Any]) -> None:
        metadata = {
            "namespace": service["metadata"]["namespace"],
            "name": annotate.pod_name,
            "uid": annotate.pod_uid,
            "annotations": dict(annotate.annotations),
        }
        await self._apply(_manifest(PODS, metadata), field_manager=CHILD_FIELD_MANAGER, force=True)

    async def _apply(
        self, manifest: Mapping[str, Any], *, field_manager: str, force: bool, subresource: str | None = None
    ) -> None:
        async with self._leadership.writing():
            live = await self._client.apply(
                manifest, field_manager=field_manager, force=force, subresource=subresource
            )
        self._count_write(manifest["kind"] if subresource is None else f"{manifest['kind']}/{subresource}")
        # Our own write is read back at once, so that the next plan is not made of what was before it.
        self._store.put(kind_of(manifest), live)


def _manifest(kind: Kind, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": dict(metadata)}
