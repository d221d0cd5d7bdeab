"""Whether this process works. Live: its loop turns and its view of the cluster is not hopelessly old.
Ready: every kind was listed once. Leadership is neither: a standby is healthy.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headrace_operator.kube.store import Store
from headrace_operator.run.metrics import OperatorMetrics
from headrace_operator.run.queue import WorkQueue

BEAT_S = 1.0
MAX_LOOP_LAG_S = 5.0
MAX_STORE_AGE_S = 900.0
MAX_QUEUE_AGE_S = 300.0


@dataclass(slots=True)
class Health:
    """`clock` is monotonic seconds."""

    store: Store
    queue: WorkQueue
    metrics: OperatorMetrics
    clock: Callable[[], float]
    is_leader: Callable[[], bool]
    _started_s: float = 0.0
    _beat_s: float = 0.0

    def __post_init__(self) -> None:
        self._started_s = self._beat_s = self.clock()

    async def run(self) -> None:
        """Measure how late the loop wakes, and refresh the gauges."""
        while True:
            before_s = self.clock()
            await asyncio.sleep(BEAT_S)
            self._beat_s = self.clock()
            self.metrics.loop_lag_s.set(max(0.0, self._beat_s - before_s - BEAT_S))
            self.metrics.leader.set(1 if self.is_leader() else 0)
            self.metrics.queue_depth.set(len(self.queue))
            self.metrics.queue_age_s.set(self.queue.oldest_age_s())
            age_s = self.store.age_s(self._beat_s)
            if age_s is not None:
                self.metrics.store_age_s.set(age_s)

    def not_live_because(self) -> str | None:
        now_s = self.clock()
        if now_s - self._beat_s > MAX_LOOP_LAG_S + BEAT_S:
            return "the event loop is stuck"
        age_s = self.store.age_s(now_s)
        if (now_s - self._started_s if age_s is None else age_s) > MAX_STORE_AGE_S:
            return f"nothing could be listed for {MAX_STORE_AGE_S:g} s"
        if self.store.synced and self.queue.oldest_age_s() > MAX_QUEUE_AGE_S:
            return f"a service has waited for a worker for {MAX_QUEUE_AGE_S:g} s"
        return None

    def not_ready_because(self) -> str | None:
        return None if self.store.synced else "the first listing of the cluster is not complete"
