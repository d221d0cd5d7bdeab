"""The periodic authoritative LIST: what a broken watch lost is found, what it never saw deleted is pruned.

The first round is also the first sync, before which no worker runs; a LIST that fails is repeated soon, and a
kind that cannot be listed keeps the operator not ready rather than half blind.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.kinds import INFERENCE_SERVICES, Kind
from headrace_operator.kube.store import Store

logger = logging.getLogger(__name__)

RETRY_S = 5.0
JITTER_RATIO = 0.2


class Relister:
    """`namespaces` empty means the whole cluster. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        *,
        client: KubeClient,
        store: Store,
        kinds: Sequence[Kind],
        namespaces: Sequence[str],
        interval_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._store = store
        self._kinds = kinds
        self._namespaces: Sequence[str | None] = list(namespaces) or [None]
        self._interval_s = interval_s
        self._clock = clock
        self._sleep = sleep
        self.synced = asyncio.Event()

    async def run(self) -> None:
        while True:
            failed = [kind for kind in self._kinds if not await self._list(kind)]
            if self._store.synced and not self.synced.is_set():
                logger.info("first sync is complete", extra={"event": "Synced"})
                self.synced.set()
            jitter = 1 + JITTER_RATIO * (2 * random.random() - 1)  # noqa: S311
            await self._sleep((RETRY_S if failed else self._interval_s) * jitter)

    async def _list(self, kind: Kind) -> bool:
        try:
            for namespace in self._namespaces:
                items, version = await self._client.list(kind, namespace)
                self._store.replace(kind, items, resource_version=version, namespace=namespace)
        except (KubeError, KubeUnreachableError) as error:
            logger.warning("cannot list %s: %s%s", kind.plural, error, _advice(kind, error))
            return False
        self._store.mark_listed(kind, self._clock())
        return True


def _advice(kind: Kind, error: KubeError | KubeUnreachableError) -> str:
    if not isinstance(error, KubeError):
        return ""
    if error.is_not_found and kind is INFERENCE_SERVICES:
        return " (the CustomResourceDefinition is not installed: apply crds/ first)"
    if error.is_forbidden:
        return (
            f" (grant the operator get, list and watch on {kind.plural} of {kind.group or 'the core group'})"
        )
    return ""
