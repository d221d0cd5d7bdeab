"""Carries out a plan: the single writer of the cluster and of the engines.

Each write is preceded by the question whether we still lead, and ends before that answer does. An object that
exists is applied to by uid; one that must not exist yet is applied without force: so an object of our name
that is not ours stays as it is, whatever happens in between.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from headrace_operator.api.names import ADMIN_PORT, CHILD_FIELD_MANAGER, STATUS_FIELD_MANAGER
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.plan import Plan, PodAnnotations
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.elector import Leadership
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import INFERENCE_SERVICES, PODS, Kind, kind_of
from headrace_operator.kube.store import Store
from headrace_operator.observe.admin import AdminClient, AdminError, AdminTarget
from headrace_operator.observe.ownership import controller_uid

logger = logging.getLogger(__name__)


class NotLeadingError(Exception):
    """The lease ended: nothing more is written, and what was left undone is the next leader's."""


class NameConflictError(Exception):
    """An object of a child's name exists and is not the service's: it is left untouched."""


@dataclass(frozen=True, slots=True)
class Acted:
    """`engine_errors`: calls that an engine did not take; the next plan holds them again."""

    writes: int
    engine_errors: int


class Actor:
    """`admin` is None where the operator has no signing key: engines are then not called."""

    def __init__(
        self,
        *,
        client: KubeClient,
        store: Store,
        leadership: Leadership,
        recorder: EventRecorder,
        admin: AdminClient | None,
        count_write: Callable[[str], None],
    ) -> None:
        self._client = client
        self._store = store
        self._leadership = leadership
        self._recorder = recorder
        self._admin = admin
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
        engine_errors = await self._call_engines(plan)
        for event in plan.events:
            async with self._leading():
                await self._recorder.post(
                    service, type_=event.type, reason=event.reason, message=event.message
                )
        return Acted(writes, engine_errors)

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
        async with self._leading():
            live = await self._client.apply(
                manifest, field_manager=field_manager, force=force, subresource=subresource
            )
        self._count_write(manifest["kind"] if subresource is None else f"{manifest['kind']}/{subresource}")
        # Our own write is read back at once, so that the next plan is not made of what was before it.
        self._store.put(kind_of(manifest), live)

    async def _call_engines(self, plan: Plan) -> int:
        if self._admin is None:
            return 0
        errors = 0
        for change in plan.set_limits:
            target = AdminTarget(change.pod_uid, change.pod_ip, ADMIN_PORT)
            limits = {
                "max_num_seqs": change.limits.max_num_seqs,
                "max_num_batched_tokens": change.limits.max_num_batched_tokens,
            }
            try:
                async with self._leading():
                    await self._admin.set_limits(target, limits)
            except AdminError as error:
                errors += 1
                logger.warning("limits of pod %s not set: %s", change.pod_name, error)
        for drain in plan.drain:
            target = AdminTarget(drain.pod_uid, drain.pod_ip, ADMIN_PORT)
            try:
                async with self._leading():
                    await self._admin.drain(target, timeout_s=drain.timeout_s)
            except AdminError as error:
                errors += 1
                logger.warning("pod %s not drained: %s", drain.pod_name, error)
        return errors

    @asynccontextmanager
    async def _leading(self) -> AsyncIterator[None]:
        remaining_s = self._leadership.remaining_s()
        if remaining_s <= 0:
            raise NotLeadingError("the lease is not ours")
        try:
            async with asyncio.timeout(remaining_s):
                yield
        except TimeoutError as error:
            raise NotLeadingError("the lease ended during a write") from error


def _manifest(kind: Kind, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": dict(metadata)}
