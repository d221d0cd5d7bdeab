"""The periodic authoritative LIST: what a broken watch lost is found, what it never saw deleted is pruned.

The first round is also the first sync, before which no worker runs. A LIST that fails is repeated soon. One
that is refused blinds the services of its scope, which say so; so does a watch that is refused, though these
are served on, by LISTs that follow each other closely.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.coverage import Coverage, Scope
from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.kinds import INFERENCE_SERVICES, OPTIONAL, Kind
from headrace_operator.kube.store import Store

logger = logging.getLogger(__name__)

RETRY_S = 5.0
JITTER_RATIO = 0.2


class Relister:
    """Lists what `coverage` asks for, and tells it how that went. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        *,
        client: KubeClient,
        store: Store,
        coverage: Coverage,
        interval_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._store = store
        self._coverage = coverage
        self._interval_s = interval_s
        self._clock = clock
        self._sleep = sleep
        self.synced = asyncio.Event()

    async def run(self) -> None:
        while True:
            whole = True
            for kind in self._coverage.kinds:
                for scope in self._coverage.scopes:
                    whole &= await self._list(kind, scope)
            if self._coverage.is_settled and not self.synced.is_set():
                logger.info("first sync is complete", extra={"event": "Synced"})
                self.synced.set()
            jitter = 1 + JITTER_RATIO * (2 * random.random() - 1)  # noqa: S311
            await self._sleep((self._interval_s if whole else RETRY_S) * jitter)

    async def _list(self, kind: Kind, scope: Scope) -> bool:
        """Whether the kind was listed there and may be watched there."""
        was_blind = self._is_blind(scope)
        try:
            items, version = await self._client.list(kind, scope)
        except (KubeError, KubeUnreachableError) as error:
            _warn("list", kind, error)
            is_whole = False
            if isinstance(error, KubeError) and (error.is_refused or _may_lack(kind, error)):
                self._coverage.refuse_list(kind, scope, error)
                is_whole = kind in OPTIONAL
        else:
            self._store.replace(kind, items, resource_version=version, namespace=scope)
            self._coverage.listed(kind, scope, self._clock())
            is_whole = kind in OPTIONAL or await self._try_watch(kind, scope, version)
        if was_blind != self._is_blind(scope):
            self._store.wake_services(scope)
        return is_whole

    async def _try_watch(self, kind: Kind, scope: Scope, version: str) -> bool:
        try:
            await self._client.try_watch(kind, scope, version)
        except KubeUnreachableError:
            return False
        except KubeError as error:
            _warn("watch", kind, error)
            if error.is_refused:
                self._coverage.watched(kind, scope, error)
            return False
        self._coverage.watched(kind, scope, None)
        return True

    def _is_blind(self, scope: Scope) -> bool:
        return self._coverage.blind_in(scope or "") is not None


def _may_lack(kind: Kind, error: KubeError) -> bool:
    return kind in OPTIONAL and error.is_not_found


def _warn(verb: str, kind: Kind, error: KubeError | KubeUnreachableError) -> None:
    logger.warning("cannot %s %s: %s%s", verb, kind.plural, error, _advice(kind, error))


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
