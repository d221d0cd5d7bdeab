"""What the engine has at hand, as gauges, and the watch over it: every accepted request ends exactly once."""

import logging
from collections.abc import Callable

from headrace_engine.core.snapshot import Snapshot
from headrace_engine.telemetry.metrics import WAITING_FOR_CAPACITY, Metrics
from headrace_engine.telemetry.report import StepReport

log = logging.getLogger(__name__)


class Gauges:
    """Those of the newest report."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._lost = 0
        self._oldest_arrival_s: float | None = None
        self.kv_usage_ratio = 0.0
        metrics.oldest_waiting_age.set_function(self._oldest_waiting_age_s)

    def show(self, report: StepReport, *, num_timelines: int) -> None:
        """`num_timelines` is how many requests are known here to be in flight."""
        metrics, snapshot = self._metrics, report.snapshot
        metrics.requests_running.set(snapshot.num_running)
        metrics.requests_waiting.set(snapshot.num_waiting)
        by_reason = metrics.requests_waiting_by_reason.labels(metrics.model_name, "0", WAITING_FOR_CAPACITY)
        by_reason.set(snapshot.num_waiting)
        metrics.in_flight.set(snapshot.in_flight)
        metrics.waiting_tokens.set(snapshot.waiting_tokens)
        metrics.kv_cache_usage.set(snapshot.kv_usage_ratio)
        self.kv_usage_ratio = snapshot.kv_usage_ratio
        self._watch(snapshot, num_timelines)
        age_s = snapshot.oldest_waiting_age_s
        self._oldest_arrival_s = None if age_s is None else report.now_s - age_s

    def _watch(self, snapshot: Snapshot, num_timelines: int) -> None:
        """Every accepted request ends in exactly one terminal event: accepted = finished + live."""
        lost = snapshot.accepted_total - snapshot.finished_total - snapshot.in_flight
        lost = lost or num_timelines - snapshot.in_flight
        if lost and not self._lost:
            told = {"accepted": snapshot.accepted_total, "finished": snapshot.finished_total}
            log.error(
                "requests are unaccounted for", extra={**told, "live": snapshot.in_flight, "lost": lost}
            )
        self._lost = lost
        self._metrics.unaccounted.set(abs(lost))

    def _oldest_waiting_age_s(self) -> float:
        """Grows between reports: a loop that hangs in a step shows an age that does too."""
        return 0.0 if self._oldest_arrival_s is None else max(0.0, self._clock() - self._oldest_arrival_s)
