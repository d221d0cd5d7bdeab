"""Whether this process works. Live: its loop turns and its view of the cluster is not hopelessly old.
Ready: each LIST was answered once, and not all of them by a refusal. Leadership is neither: a standby is
healthy.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headrace_operator.kube.coverage import Coverage
from headrace_operator.run.metrics import OperatorMetrics
from headrace_operator.run.queue import WorkQueue

BEAT_S = 0.25
MAX_LOOP_LAG_S = 5.0
MAX_STORE_AGE_S = 900.0
MAX_QUEUE_AGE_S = 300.0


@dataclass(slots=True)
class Health:
    """`clock` is monotonic seconds."""

    coverage: Coverage
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
            self.metrics.loop_lag_s.observe(max(0.0, self._beat_s - before_s - BEAT_S))
            self.metrics.leader.set(1 if self.is_leader() else 0)
            self.metrics.queue_depth.set(len(self.queue))
            self.metrics.queue_age_s.set(self.queue.oldest_age_s())
            age_s = self.coverage.age_s(self._beat_s)
            if age_s is not None:
                self.metrics.store_age_s.set(age_s)

    def not_live_because(self) -> str | None:
        now_s = self.clock()
        if now_s - self._beat_s > MAX_LOOP_LAG_S + BEAT_S:
            return "the event loop is stuck"
        if self._unlisted_s(now_s) > MAX_STORE_AGE_S:
            return f"nothing could be listed for {MAX_STORE_AGE_S:g} s"
        if self.coverage.is_settled and self.queue.oldest_age_s() > MAX_QUEUE_AGE_S:
            return f"a service has waited for a worker for {MAX_QUEUE_AGE_S:g} s"
        return None

    def not_ready_because(self) -> str | None:
        if not self.coverage.is_settled:
            return "the first listing of the cluster is not complete"
        refused = self.coverage.seen_nowhere_because()
        return f"nothing may be seen: {refused.message}" if refused is not None else None

    def _unlisted_s(self, now_s: float) -> float:
        """How old the view is. A refusal is not mended by a restart, so what is refused has no age."""
        if self.coverage.seen_nowhere_because() is not None:
            return 0.0
        age_s = self.coverage.age_s(now_s)
        return now_s - self._started_s if age_s is None else age_s
