"""One scrape of one pod, reduced to the series that decisions are made of. Pure.

A counter that the engine declares but has not counted yet is 0; one that it does not declare is None.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace_operator.observe.exposition import Exposition


class Counter(StrEnum):
    """Named as the fields of `decide.observation.Window`."""

    ARRIVALS = "arrivals"
    REJECTIONS = "rejections"
    GOOD = "good"
    LATE = "late"
    FAILED = "failed"
    PROMPT_TOKENS = "prompt_tokens"
    GENERATION_TOKENS = "generation_tokens"
    PREEMPTIONS = "preemptions"
    STEPS = "steps"


class Distribution(StrEnum):
    QUEUE_TIME = "queue_time_s"
    TTFT = "ttft_s"
    ITL = "itl_s"
    E2E = "e2e_s"
    STEP_BUDGET_USED = "step_budget_used_ratio"


class Gauge(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    OLDEST_WAITING_AGE = "oldest_waiting_age_s"
    KV_USED = "kv_used_ratio"
    IN_FLIGHT = "in_flight"
    DRAINING = "draining"
    START_TIME = "start_time_s"
    MAX_NUM_SEQS = "max_num_seqs"
    MAX_NUM_BATCHED_TOKENS = "max_num_batched_tokens"


@dataclass(frozen=True, slots=True)
class Series:
    """A metric, or of its series those with one label at one value. Matching series are summed."""

    name: str
    label: tuple[str, str] | None = None

    @property
    def family(self) -> str:
        """As its TYPE line names it."""
        return self.name.removesuffix("_count")


HEADRACE_COUNTERS: Mapping[Counter, Series] = {
    Counter.ARRIVALS: Series("headrace_requests_received_total"),
    Counter.REJECTIONS: Series("headrace_request_rejections_total"),
    Counter.GOOD: Series("headrace_requests_finished_total", ("outcome", "good")),
    Counter.LATE: Series("headrace_requests_finished_total", ("outcome", "late")),
    Counter.FAILED: Series("headrace_requests_finished_total", ("outcome", "failed")),
    Counter.PROMPT_TOKENS: Series("vllm:prompt_tokens_total"),
    Counter.GENERATION_TOKENS: Series("vllm:generation_tokens_total"),
    Counter.PREEMPTIONS: Series("vllm:num_preemptions_total"),
    Counter.STEPS: Series("headrace_step_seconds_count"),
}
HEADRACE_DISTRIBUTIONS: Mapping[Distribution, str] = {
    Distribution.QUEUE_TIME: "headrace_queue_time_seconds",
    Distribution.TTFT: "headrace_time_to_first_token_seconds",
    Distribution.ITL: "headrace_inter_token_latency_seconds",
    Distribution.E2E: "vllm:e2e_request_latency_seconds",
    Distribution.STEP_BUDGET_USED: "headrace_step_budget_used_ratio",
}
HEADRACE_GAUGES: Mapping[Gauge, Series] = {
    Gauge.RUNNING: Series("vllm:num_requests_running"),
    Gauge.WAITING: Series("vllm:num_requests_waiting"),
    Gauge.OLDEST_WAITING_AGE: Series("headrace_oldest_waiting_age_seconds"),
    Gauge.KV_USED: Series("vllm:kv_cache_usage_perc"),
    Gauge.IN_FLIGHT: Series("headrace_in_flight"),
    Gauge.DRAINING: Series("headrace_draining"),
    Gauge.START_TIME: Series("headrace_start_time_seconds"),
    Gauge.MAX_NUM_SEQS: Series("headrace_limit", ("name", "max_num_seqs")),
    Gauge.MAX_NUM_BATCHED_TOKENS: Series("headrace_limit", ("name", "max_num_batched_tokens")),
}


@dataclass(frozen=True, slots=True)
class MetricMap:
    """Which series of a runtime mean what."""

    counters: Mapping[Counter, Series]
    distributions: Mapping[Distribution, str]
    gauges: Mapping[Gauge, Series]

    @property
    def wanted(self) -> frozenset[str]:
        singles: Iterable[Series] = (*self.counters.values(), *self.gauges.values())
        parts = (
            f"{name}_{part}" for name in self.distributions.values() for part in ("bucket", "sum", "count")
        )
        return frozenset({series.name for series in singles} | set(parts))


HEADRACE = MetricMap(HEADRACE_COUNTERS, HEADRACE_DISTRIBUTIONS, HEADRACE_GAUGES)


@dataclass(frozen=True, slots=True)
class Buckets:
    """A cumulative histogram: `counts[i]` observations at most `upper_edges[i]`, `total` in all."""

    upper_edges: tuple[float, ...] = ()
    counts: tuple[float, ...] = ()
    total: float = 0.0
    sum: float = 0.0


@dataclass(frozen=True, slots=True)
class PodSample:
    at_s: float
    counters: Mapping[Counter, float]
    distributions: Mapping[Distribution, Buckets]
    gauges: Mapping[Gauge, float]
    implausible: int = 0


def sample(exposition: Exposition, *, metrics: MetricMap, at_s: float) -> PodSample:
    """What `exposition` says in our words; what it does not say is not in the mappings."""
    counters = {
        counter: value
        for counter, series in metrics.counters.items()
        if (value := _counted(exposition, series)) is not None
    }
    distributions = {
        distribution: buckets
        for distribution, name in metrics.distributions.items()
        if (buckets := _buckets(exposition, name)) is not None
    }
    gauges = {
        gauge: value
        for gauge, series in metrics.gauges.items()
        if (value := _total(exposition, series)) is not None
    }
    return PodSample(at_s, counters, distributions, gauges, exposition.implausible)


def _total(exposition: Exposition, series: Series) -> float | None:
    values = [
        found.value
        for found in exposition.samples.get(series.name, ())
        if series.label is None or found.labels.get(series.label[0]) == series.label[1]
    ]
    return sum(values) if values else None


def _counted(exposition: Exposition, series: Series) -> float | None:
    value = _total(exposition, series)
    return 0.0 if value is None and series.family in exposition.families else value


def _buckets(exposition: Exposition, name: str) -> Buckets | None:
    total = _total(exposition, Series(f"{name}_count"))
    if total is None:
        return Buckets() if name in exposition.families else None
    by_edge: dict[float, float] = {}
    for found in exposition.samples.get(f"{name}_bucket", ()):
        edge = _edge(found.labels.get("le"))
        if edge is not None:
            by_edge[edge] = by_edge.get(edge, 0.0) + found.value
    edges = tuple(sorted(by_edge))
    counts = tuple(by_edge[edge] for edge in edges)
    if any(low > high for low, high in zip(counts, (*counts[1:], total), strict=True)):
        return None
    return Buckets(edges, counts, total, _total(exposition, Series(f"{name}_sum")) or 0.0)


def _edge(text: str | None) -> float | None:
    """None for the open bucket, which `_count` already tells, and for what is no number."""
    try:
        edge = float(text) if text is not None else None
    except ValueError:
        return None
    return edge if edge is not None and edge < float("inf") else None
