"""Seeks and holds the Lease that gates every write: all replicas watch, one writes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any, Self

from headrace_operator.decide.lease import LeaseAction, LeaseRecord, LeaseView, decide_lease
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import LEASES
from headrace_operator.kube.leadership import Leadership

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The values of kube-controller-manager. `margin_s` is how long before the end we stop believing."""

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0
    margin_s: float = 2.0

    @classmethod
    def of(cls, duration_s: float) -> Self:
        """The same proportions at another duration, which the Lease holds in whole seconds."""
        scale = round(duration_s) / cls().duration_s
        return cls(*(scale * value for value in astuple(cls())))


class Elector:
    def __init__(
        self,
        *,
        client: KubeClient,
        leadership: Leadership,
        namespace: str,
        name: str,
        me: str,
        clock: Callable[[], float],
        timing: LeaseTiming | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        recorder: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._leadership = leadership
        self._namespace = namespace
        self._name = name
        self._me = me
        self._clock = clock
        self._timing = timing or LeaseTiming()
        self._sleep = sleep
        self._view = LeaseView(None, clock())
        self._live: dict[str, Any] | None = None

    async def run(self) -> None:
        """Seek and keep the lease until cancelled."""
        while True:
            await self.step()
            await self._sleep(self._timing.retry_s)

    async def step(self) -> None:
        """One look at the Lease, and one write if the rule asks for it."""
        was_leader = self._leadership.valid()
        started_s = self._clock()
        try:
            async with asyncio.timeout(self._timing.renew_deadline_s):
                held = await self._look_and_act()
        except (KubeError, KubeUnreachableError, TimeoutError) as error:
            # Whether a write of ours arrived is unknown; the validity runs out by the clock if it did not.
            logger.warning("lease %s/%s: %s", self._namespace, self._name, str(error) or "no answer in time")
        else:
            if held:
                self._leadership.extend(started_s + self._timing.duration_s - self._timing.margin_s)
            else:
                self._leadership.end()
        if was_leader != self._leadership.valid():
            logger.info(
                "leading" if self._leadership.valid() else "standing by",
                extra={"event": "LeaderChanged", "identity": self._me},
            )
            await self._announce()

    async def release(self) -> None:
        """Give the lease up so that another replica need not wait for its end."""
        held = self._leadership.valid()
        self._leadership.end()
        if not held or self._live is None:
            return
        try:
            async with asyncio.timeout(self._timing.retry_s):
                await self._client.replace(self._manifest("", self._live))
        except (KubeError, KubeUnreachableError, TimeoutError) as error:
            logger.warning("lease not released, it ends by itself: %s", str(error) or "no answer in time")

    async def _announce(self) -> None:
        """An Event on the Lease, by the one that took it; never at the cost of the next renewal."""
        if self._recorder is None or self._live is None or not self._leadership.valid():
            return
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **self._live}
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.retry_s):
                message = f"{self._me} writes now"
                await self._recorder.post(lease, type_="Normal", reason="LeaderChanged", message=message)

    async def _look_and_act(self) -> bool:
        """Whether we hold the lease by now."""
        self._live = await self._client.get(LEASES, self._namespace, self._name)
        self._view = self._view.seeing(_record(self._live), self._clock())
        action = decide_lease(view=self._view, me=self._me, now_s=self._clock())
        if action is LeaseAction.WAIT:
            return False
        manifest = self._manifest(self._me, self._live)
        try:
            write = self._client.create if action is LeaseAction.CREATE else self._client.replace
            self._live = await write(manifest)
        except KubeError as error:
            if error.is_conflict:
                return False
            raise
        self._view = self._view.seeing(_record(self._live), self._clock())
        return True

    def _manifest(self, holder: str, live: dict[str, Any] | None) -> dict[str, Any]:
        spec = dict((live or {}).get("spec") or {})
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        if spec.get("holderIdentity") != holder:
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if holder else 0)
            spec["acquireTime"] = now
        spec |= {
            "holderIdentity": holder,
            "renewTime": now,
            "leaseDurationSeconds": round(self._timing.duration_s),
        }
        metadata = (live or {}).get("metadata") or {"namespace": self._namespace, "name": self._name}
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}


def _record(live: dict[str, Any] | None) -> LeaseRecord | None:
    if live is None:
        return None
    spec = live.get("spec") or {}
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration_s=float(spec.get("leaseDurationSeconds") or 0),
        version=str(live["metadata"]["resourceVersion"]),
    )
