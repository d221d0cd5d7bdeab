"""Answers by route, method and class of status, under the names that vLLM's dashboards query.

A label holds a route's template and a known method, never what was asked for: strangers share one series.
"""

from prometheus_client import CollectorRegistry, Counter, Histogram

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE, OTHER_METHOD = "none", "OTHER"
DURATION_S = (0.1, 0.5, 1.0)


class HttpMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = Counter(
            *("http_requests", "Requests answered, by class of status; probes are not counted."),
            ["handler", "method", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            *("http_request_duration_seconds", "From a request's headers to the end of its answer."),
            ["handler", "method"],
            buckets=DURATION_S,
            registry=registry,
        )

    def answered(self, handler: str | None, method: str, status: int, seconds: float) -> None:
        """`handler` is the route's template; None where there is no such route."""
        handler = handler or NO_ROUTE
        method = method if method in METHODS else OTHER_METHOD
        self._answers.labels(handler, method, f"{status // 100}xx").inc()
        self._seconds.labels(handler, method).observe(seconds)
