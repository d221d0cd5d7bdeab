"""Carries out a plan: the single writer of the cluster and of the engines.

Each write is preceded by the question whether we still lead, and ends before that answer does. An object that
exists is applied to by uid; one that is to be made, on the condition that there is none: so an object of our
name that is not ours stays as it is, whatever happens in between. A child that the API server refuses to take
does not keep the others from being written.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace_operator.api.names import CHILD_FIELD_MANAGER, STATUS_FIELD_MANAGER
from headrace_operator.api.spec import Limits
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.plan import Event, Plan, PodAnnotations
from headrace_operator.kube.client import NOT_THERE, KubeClient
from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import INFERENCE_SERVICES, PODS, Kind, kind_of
from headrace_operator.kube.leadership import Leadership
from headrace_operator.kube.store import Store
from headrace_operator.observe.ownership import controller_uid
from headrace_operator.run.engine_calls import EngineCalls


class NameConflictError(Exception):
    """An object of a child's name exists and is not the service's: it is left untouched."""


class NameTakenError(KubeError):
    """A child was to be made, and there is an object of its name: whose it is, is to be seen."""


@dataclass(frozen=True, slots=True)
class Acted:
    """`limits` by uid of the pods that took them; what an engine did not take, the next plan holds again.
    `refused` is the first write to a child or a pod that the API server refused: no event was posted then.
    """

    writes: int = 0
    refused: KubeError | None = None
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
        refused: list[KubeError] = []
        writes = 0
        if plan.status is not None:
            await self._apply_status(service, plan.status)
            writes += 1
        for manifest in plan.objects:
            writes += await _unless_refused(self._apply_child(manifest, service, observation), refused)
        unmarked = set()
        for annotate in plan.annotate:
            if await _unless_refused(self._annotate(annotate, service), refused):
                writes += 1
            else:
                unmarked.add(annotate.pod_uid)
        limits = await self._engines.set_limits(plan.set_limits)
        # A pod that drains without its mark would be forgotten by the next plan.
        drains = [drain for drain in plan.drain if drain.pod_uid not in unmarked]
        drained = await self._engines.drain(drains)
        for event in plan.events if not refused else ():
            await self._post(service, event)
        errors = len(plan.set_limits) - len(limits) + len(drains) - drained
        return Acted(writes, next(iter(refused), None), errors, limits)

    async def _apply_status(self, service: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        metadata = {name: service["metadata"][name] for name in ("namespace", "name", "uid")}
        manifest = _manifest(INFERENCE_SERVICES, metadata) | {"status": status}
        try:
            await self._apply(manifest, field_manager=STATUS_FIELD_MANAGER, force=True, subresource="status")
        except KubeError as error:
            if error.is_refused:
                # The one trouble that no condition can tell.
                await self._post(service, Event("Warning", "StatusRefused", error.message))
            raise

    async def _post(self, service: Mapping[str, Any], event: Event) -> None:
        async with self._leadership.writing():
            await self._recorder.post(service, type_=event.type, reason=event.reason, message=event.message)

    async def _apply_child(
        self, manifest: Mapping[str, Any], service: Mapping[str, Any], observation: Observation
    ) -> None:
        live, metadata = observation.children.get(manifest["kind"]), manifest["metadata"]
        if live is None:
            await self._make(manifest)
            return
        if controller_uid(live) != service["metadata"]["uid"]:
            raise NameConflictError(f"{manifest['kind']} {metadata['name']} exists and is not the service's")
        exact = {**manifest, "metadata": {**metadata, "uid": live["metadata"]["uid"]}}
        await self._apply(exact, field_manager=CHILD_FIELD_MANAGER, force=True)

    async def _make(self, manifest: Mapping[str, Any]) -> None:
        unborn = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": NOT_THERE}}
        try:
            await self._apply(unborn, field_manager=CHILD_FIELD_MANAGER, force=False)
        except KubeError as error:
            if error.is_conflict:
                raise NameTakenError(error.status, error.reason, error.message) from error
            raise

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


async def _unless_refused(write: Awaitable[None], refused: list[KubeError]) -> bool:
    """Whether it was written; where the API server refused it, the error is added to `refused`."""
    try:
        await write
    except KubeError as error:
        # A kind that is gone, with the operator that brought it, keeps a service from nothing else.
        if not (error.is_refused or error.is_not_found):
            raise
        refused.append(error)
        return False
    return True


def _manifest(kind: Kind, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": dict(metadata)}
