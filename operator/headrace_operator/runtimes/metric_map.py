"""Which series of an engine mean what. Pure tables; what an engine does not have is simply not in its map."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
    TENANTS_DIGEST = "tenants_digest"
    BY_SHARES = "by_shares"
    BY_CLASSES = "by_classes"
    MAX_NUM_SEQS = "max_num_seqs"
    MAX_NUM_BATCHED_TOKENS = "max_num_batched_tokens"


@dataclass(frozen=True, slots=True)
class Series:
    """A metric, or of its series those with one label at one value. Matching series are summed."""

    name: str
    label: tuple[str, str] | None = None
    is_deducted: bool = False
    """Taken off the others of its counter instead of added."""

    @property
    def family(self) -> str:
        """As its TYPE line names it."""
        return self.name.removesuffix("_count")


_REFUSALS = "headrace_request_rejections_total"
SHED = ("queue_full_requests", "queue_full_tokens", "queue_deadline")
"""Refused for what more capacity would have served."""
NO_LOAD = (
    *("never_fits", "invalid", "invalid_priority", "duplicate_id"),
    *("tenant_queue_full_requests", "tenant_queue_full_tokens"),
    *("tenant_requests_per_minute", "tenant_tokens_per_minute"),
)
"""Refused whatever the capacity: a request that fits nowhere, asks for a class that is not its own, or
exceeds its tenant's own terms says nothing about replicas.
"""

_HEADRACE_COUNTERS: Mapping[Counter, tuple[Series, ...]] = {
    Counter.ARRIVALS: (
        Series("headrace_requests_received_total"),
        *(Series(_REFUSALS, ("reason", reason), is_deducted=True) for reason in NO_LOAD),
    ),
    Counter.REJECTIONS: tuple(Series(_REFUSALS, ("reason", reason)) for reason in SHED),
    Counter.GOOD: (Series("headrace_requests_finished_total", ("outcome", "good")),),
    Counter.LATE: (Series("headrace_requests_finished_total", ("outcome", "late")),),
    Counter.FAILED: (Series("headrace_requests_finished_total", ("outcome", "failed")),),
    Counter.PROMPT_TOKENS: (Series("vllm:prompt_tokens_total"),),
    Counter.GENERATION_TOKENS: (Series("vllm:generation_tokens_total"),),
    Counter.PREEMPTIONS: (Series("vllm:num_preemptions_total"),),
    Counter.STEPS: (Series("headrace_step_seconds_count"),),
}
_HEADRACE_DISTRIBUTIONS: Mapping[Distribution, str] = {
    Distribution.QUEUE_TIME: "headrace_queue_time_seconds",
    Distribution.TTFT: "headrace_time_to_first_token_seconds",
    Distribution.ITL: "headrace_inter_token_latency_seconds",
    Distribution.E2E: "vllm:e2e_request_latency_seconds",
    Distribution.STEP_BUDGET_USED: "headrace_step_budget_used_ratio",
}
_HEADRACE_GAUGES: Mapping[Gauge, Series] = {
    Gauge.RUNNING: Series("vllm:num_requests_running"),
    Gauge.WAITING: Series("vllm:num_requests_waiting"),
    Gauge.OLDEST_WAITING_AGE: Series("headrace_oldest_waiting_age_seconds"),
    Gauge.KV_USED: Series("vllm:kv_cache_usage_perc"),
    Gauge.IN_FLIGHT: Series("headrace_in_flight"),
    Gauge.DRAINING: Series("headrace_draining"),
    Gauge.START_TIME: Series("headrace_start_time_seconds"),
    Gauge.TENANTS_DIGEST: Series("headrace_tenants_digest"),
    Gauge.BY_SHARES: Series("headrace_scheduling_policy", ("policy", "fair")),
    Gauge.BY_CLASSES: Series("headrace_scheduling_policy", ("policy", "slo")),
    Gauge.MAX_NUM_SEQS: Series("headrace_limit", ("name", "max_num_seqs")),
    Gauge.MAX_NUM_BATCHED_TOKENS: Series("headrace_limit", ("name", "max_num_batched_tokens")),
}

_VLLM_COUNTERS: Mapping[Counter, tuple[Series, ...]] = {
    # vLLM counts no arrivals. First tokens are what follows them soonest; who still waits is in a gauge.
    Counter.ARRIVALS: (
        Series("vllm:time_to_first_token_seconds_count"),
        Series("vllm:admission_rejections_total"),
    ),
    Counter.REJECTIONS: (Series("vllm:admission_rejections_total"),),
    Counter.FAILED: (Series("vllm:request_success_total", ("finished_reason", "error")),),
    Counter.PROMPT_TOKENS: (Series("vllm:prompt_tokens_total"),),
    Counter.GENERATION_TOKENS: (Series("vllm:generation_tokens_total"),),
    Counter.PREEMPTIONS: (Series("vllm:num_preemptions_total"),),
    # A histogram of tokens a step, for all its name.
    Counter.STEPS: (Series("vllm:iteration_tokens_total_count"),),
}
_VLLM_DISTRIBUTIONS: Mapping[Distribution, str] = {
    # Observed when a request ends, and in nothing finer than 0.3 s.
    Distribution.QUEUE_TIME: "vllm:request_queue_time_seconds",
    Distribution.TTFT: "vllm:time_to_first_token_seconds",
    Distribution.ITL: "vllm:inter_token_latency_seconds",
    Distribution.E2E: "vllm:e2e_request_latency_seconds",
}
_VLLM_GAUGES: Mapping[Gauge, Series] = {
    Gauge.RUNNING: Series("vllm:num_requests_running"),
    Gauge.WAITING: Series("vllm:num_requests_waiting"),
    Gauge.KV_USED: Series("vllm:kv_cache_usage_perc"),
    Gauge.START_TIME: Series("process_start_time_seconds"),
}


@dataclass(frozen=True, slots=True)
class MetricMap:
    """Which series of a runtime mean what."""

    counters: Mapping[Counter, tuple[Series, ...]]
    """Several are added up. The first must be there; others count where they are."""
    distributions: Mapping[Distribution, str]
    gauges: Mapping[Gauge, Series]
    wanted: frozenset[str] = field(init=False)
    """The names of all of them, which each scrape asks for."""

    def __post_init__(self) -> None:
        counted = (series for parts in self.counters.values() for series in parts)
        singles = (*counted, *self.gauges.values())
        parts = (
            f"{name}_{part}" for name in self.distributions.values() for part in ("bucket", "sum", "count")
        )
        wanted = frozenset({series.name for series in singles} | set(parts))
        object.__setattr__(self, "wanted", wanted)


HEADRACE = MetricMap(_HEADRACE_COUNTERS, _HEADRACE_DISTRIBUTIONS, _HEADRACE_GAUGES)
VLLM = MetricMap(_VLLM_COUNTERS, _VLLM_DISTRIBUTIONS, _VLLM_GAUGES)
"""Names of vLLM V1 (0.32). It says neither its limits nor which requests were good: those stay unknown."""
