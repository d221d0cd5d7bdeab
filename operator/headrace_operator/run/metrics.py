"""The operator's own metrics. Labels come from closed sets, or are the namespace and name of a service."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

RECONCILE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LAG_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
REQUEST_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class OperatorMetrics:
    """One instance a process; its methods fit the hooks of the parts that they count."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leader = Gauge("headrace_operator_leader", "1 while this replica writes.", registry=registry)
        self.queue_depth = Gauge("headrace_operator_queue_depth", "Services due now.", registry=registry)
        self.queue_age_s = Gauge(
            "headrace_operator_queue_oldest_age_seconds",
            "Wait of the service due longest.",
            registry=registry,
        )
        self.store_age_s = Gauge(
            "headrace_operator_store_age_seconds", "Time since the oldest full LIST.", registry=registry
        )
        self.loop_lag_s = Histogram(
            "headrace_operator_loop_lag_seconds",
            "How late the event loop woke, a few times a second.",
            buckets=LAG_BUCKETS_S,
            registry=registry,
        )
        self._reconciles = Counter(
            "headrace_operator_reconciles", "Ended reconciles by result.", ["result"], registry=registry
        )
        self._reconcile_s = Histogram(
            "headrace_operator_reconcile_seconds", "Duration.", buckets=RECONCILE_BUCKETS_S, registry=registry
        )
        self._request_s = Histogram(
            "headrace_operator_api_request_seconds",
            "Calls to the API server; code 0: no answer.",
            ["verb", "code"],
            buckets=REQUEST_BUCKETS_S,
            registry=registry,
        )
        self._writes = Counter("headrace_operator_writes", "Applied objects.", ["kind"], registry=registry)
        self._decisions = Counter(
            "headrace_decision",
            "Decisions that began to be in force.",
            ["action", "reason"],
            registry=registry,
        )
        self._scrapes = Counter(
            "headrace_operator_scrapes", "Scrapes by result.", ["result"], registry=registry
        )
        self._feed_reads = Counter(
            "headrace_operator_feed_reads",
            "Reads of engines' records by result.",
            ["result"],
            registry=registry,
        )

    def reconciled(self, _key: object, result: str, seconds: float) -> None:
        self._reconciles.labels(result).inc()
        self._reconcile_s.observe(seconds)

    def decided(self, action: str, reason: str) -> None:
        self._decisions.labels(action, reason).inc()

    def requested(self, verb: str, code: int, seconds: float) -> None:
        self._request_s.labels(verb, str(code)).observe(seconds)

    def wrote(self, kind: str) -> None:
        self._writes.labels(kind).inc()

    def scraped(self, result: str) -> None:
        self._scrapes.labels(result).inc()

    def fed(self, result: str) -> None:
        self._feed_reads.labels(result).inc()
