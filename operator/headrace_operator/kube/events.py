"""Kubernetes Events about services: repeats are counted on one object, and no service may flood the cluster.

Each reason of a service has a rate of its own, so that what flaps silences nothing rare; reasons are a closed
vocabulary. An Event is a courtesy: one that cannot be posted is logged and forgotten.
"""

import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.kinds import EVENTS

logger = logging.getLogger(__name__)

COMPONENT = "headrace-operator"
BURST = 5.0
PER_SECOND = 5.0 / 60.0
REMEMBERED = 4096
MAX_MESSAGE = 1024


@dataclass(slots=True)
class TokenBucket:
    """`BURST` at once, then `PER_SECOND`."""

    tokens: float = BURST
    filled_at_s: float | None = None

    def take(self, now_s: float) -> bool:
        if self.filled_at_s is not None:
            self.tokens = min(BURST, self.tokens + (now_s - self.filled_at_s) * PER_SECOND)
        self.filled_at_s = now_s
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class _Posted:
    name: str
    count: int = 1


@dataclass(slots=True)
class EventRecorder:
    """`instance` names this process; `clock` is monotonic seconds."""

    client: KubeClient
    instance: str
    clock: Callable[[], float]
    _posted: OrderedDict[tuple[str, str], _Posted] = field(default_factory=OrderedDict)
    _buckets: OrderedDict[tuple[str, str], TokenBucket] = field(default_factory=OrderedDict)

    async def post(self, about: Mapping[str, Any], *, type_: str, reason: str, message: str) -> None:
        """Tell the world something about the object `about`. `type_` is Normal or Warning."""
        uid = about["metadata"]["uid"]
        bucket = _remember(self._buckets, (uid, reason), TokenBucket)
        if not bucket.take(self.clock()):
            logger.info("event held back by its rate: %s: %s", reason, message)
            return
        try:
            if not await self._repeat(about, uid, reason, message):
                await self._create(about, uid, type_, reason, message)
        except KubeUnreachableError as error:
            logger.warning("event %s not posted: %s", reason, error)
        except KubeError as error:
            level = logging.DEBUG if error.is_namespace_ending else logging.WARNING
            logger.log(level, "event %s not posted: %s", reason, error)

    async def _repeat(self, about: Mapping[str, Any], uid: str, reason: str, message: str) -> bool:
        """Count one more on the Event of the same reason; False where there is none (any more)."""
        posted = self._posted.get((uid, reason))
        if posted is None:
            return False
        patch = {"count": posted.count + 1, "lastTimestamp": _now(), "message": message[:MAX_MESSAGE]}
        try:
            await self.client.merge(EVENTS, about["metadata"]["namespace"], posted.name, patch)
        except KubeError as error:
            if not error.is_not_found:
                raise
            del self._posted[uid, reason]
            return False
        posted.count += 1
        return True

    async def _create(
        self, about: Mapping[str, Any], uid: str, type_: str, reason: str, message: str
    ) -> None:
        metadata, now = about["metadata"], _now()
        name = f"{metadata['name']}.{secrets.token_hex(8)}"
        await self.client.create(
            {
                "apiVersion": EVENTS.api_version,
                "kind": EVENTS.kind,
                "metadata": {"namespace": metadata["namespace"], "name": name},
                "involvedObject": {
                    "apiVersion": about["apiVersion"],
                    "kind": about["kind"],
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": uid,
                    "resourceVersion": metadata.get("resourceVersion", ""),
                },
                "type": type_,
                "reason": reason,
                "message": message[:MAX_MESSAGE],
                "source": {"component": COMPONENT},
                "reportingComponent": COMPONENT,
                "reportingInstance": self.instance,
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
            }
        )
        self._posted[uid, reason] = _Posted(name)
        while len(self._posted) > REMEMBERED:
            self._posted.popitem(last=False)


def _remember(
    buckets: OrderedDict[tuple[str, str], TokenBucket], key: tuple[str, str], make: Callable[[], TokenBucket]
) -> TokenBucket:
    bucket = buckets.setdefault(key, make())
    buckets.move_to_end(key)
    while len(buckets) > REMEMBERED:
        buckets.popitem(last=False)
    return bucket


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
