"""The workers: take a key, reconcile it, decide when to look again. They work only while we lead."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Protocol

from headrace_operator.kube.kinds import Key
from headrace_operator.kube.leadership import Leadership
from headrace_operator.run.queue import WorkQueue
from headrace_operator.run.retry import STANDBY_S, retry_after

logger = logging.getLogger(__name__)

RECONCILE_TIMEOUT_S = 60.0
SPREAD_RATIO = 0.2
"""Regular looks are spread by so much to either side, so that services do not move in step."""


class Reconcile(Protocol):
    async def reconcile(self, key: Key) -> float | None: ...


class Workers:
    """`observe` is told each outcome and its seconds."""

    def __init__(
        self,
        *,
        queue: WorkQueue,
        reconciler: Reconcile,
        leadership: Leadership,
        number: int,
        clock: Callable[[], float],
        observe: Callable[[Key, str, float], None],
    ) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._leadership = leadership
        self._number = number
        self._clock = clock
        self._observe = observe
        self._failures: dict[Key, int] = {}

    async def run(self) -> None:
        """Work until the queue is closed; what is under way is finished."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._number):
                group.create_task(self._work(), name=f"worker-{number}")

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            try:
                if self._leadership.valid():
                    await self._attempt(key)
                else:
                    self._queue.add_after(key, STANDBY_S)
            finally:
                self._queue.done(key)

    async def _attempt(self, key: Key) -> None:
        started_s = self._clock()
        try:
            async with asyncio.timeout(RECONCILE_TIMEOUT_S):
                again_after_s = await self._reconciler.reconcile(key)
        # The one place where anything is caught: a worker outlives a bug.
        except Exception as error:  # noqa: BLE001
            result = self._retry(key, error)
        else:
            result = "Ok"
            self._failures.pop(key, None)
            if again_after_s is not None:
                spread = 1 + SPREAD_RATIO * (2 * random.random() - 1)  # noqa: S311
                self._queue.add_after(key, again_after_s * spread)
        self._observe(key, result, self._clock() - started_s)

    def _retry(self, key: Key, error: Exception) -> str:
        failures = self._failures.get(key, 0)
        retry = retry_after(error, failures=failures, chance=random.random())  # noqa: S311
        self._failures[key] = failures + 1
        self._queue.add_after(key, retry.delay_s)
        log = logger.error if retry.is_bug else logger.warning
        log(
            "reconcile failed: %s",
            str(error) or type(error).__name__,
            exc_info=error if retry.is_bug else None,
            extra={"key": str(key), "result": retry.result, "again_after_s": round(retry.delay_s, 1)},
        )
        return retry.result
