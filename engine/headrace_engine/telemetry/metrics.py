"""Every metric the engine exports, declared once: name, help, labels, buckets.

vLLM's names, labels and types where vLLM has the metric, so that its dashboards and scalers work unchanged;
`headrace_*` for what it lacks. Series are few by construction: no label ever holds a client's string.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client import disable_created_metrics as without_created_series

from headrace_engine.core.plan import Hold
from headrace_engine.telemetry import buckets
from headrace_engine.telemetry.histogram import StepHistogram
from headrace_engine.telemetry.http_metrics import HttpMetrics

FINISHED_REASONS = ("stop", "length", "abort", "error")
WAITING_FOR_CAPACITY = "capacity"
WAITING_REASONS = (WAITING_FOR_CAPACITY, "deferred")
"""vLLM's; what it defers a request for (a transfer, an adapter), nobody waits for here."""
QUEUE_DEADLINE = "queue_deadline"
"""The rejection reason of a request that expired in the queue."""
REJECTION_REASONS = (
    *("queue_full_requests", "queue_full_tokens", QUEUE_DEADLINE),
    *("tenant_queue_full_requests", "tenant_queue_full_tokens"),
    *("tenant_requests_per_minute", "tenant_tokens_per_minute"),
    *("draining", "never_fits", "invalid", "invalid_priority", "duplicate_id"),
)
OUTCOMES = ("good", "late", "failed")
PROMPT_SOURCES = ("local_compute", "local_cache_hit")
CACHED_ON = "device"
"""vLLM's word for the pool of blocks, which is the one place here where KV stands."""
VLLM_REJECTIONS = {"queue_full_requests": "max_num_queued_reqs", "queue_full_tokens": "max_num_queued_tokens"}
"""vLLM names the flag, and counts these two alone."""


@dataclass(frozen=True, slots=True)
class SLO:
    """What was declared, in seconds; None is not declared, and always met."""

    ttft_s: float | None = None
    itl_s: float | None = None
    queue_deadline_s: float | None = None


class _Families:
    """Makes families with fixed label values filled in; labels that vary come last."""

    def __init__(self, registry: CollectorRegistry, prefix: str, fixed: dict[str, str]) -> None:
        self._registry = registry
        self._prefix = prefix
        self._fixed = fixed

    def gauge(self, name: str, text: str) -> Gauge:
        return self.gauges(name, text).labels(**self._fixed)

    def counter(self, name: str, text: str) -> Counter:
        return self.counters(name, text).labels(**self._fixed)

    def histogram(self, name: str, text: str, bounds: Sequence[float]) -> Histogram:
        family = Histogram(
            self._prefix + name, text, list(self._fixed), registry=self._registry, buckets=bounds
        )
        return family.labels(**self._fixed)

    def step_histogram(self, name: str, text: str, bounds: Sequence[float]) -> StepHistogram:
        family = StepHistogram(
            self._prefix + name, text, list(self._fixed), registry=self._registry, buckets=bounds
        )
        return family.labels(**self._fixed)

    def gauges(self, name: str, text: str, *varying: str) -> Gauge:
        return Gauge(self._prefix + name, text, [*self._fixed, *varying], registry=self._registry)

    def counters(self, name: str, text: str, *varying: str) -> Counter:
        return Counter(self._prefix + name, text, [*self._fixed, *varying], registry=self._registry)


class Metrics:
    """The families, in a registry of their own. Those with labels that vary are called with them by
    `labels`.
    """

    def __init__(self, *, model_name: str, max_model_len: int, slo: SLO) -> None:
        without_created_series()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.model_name = model_name
        ProcessCollector(registry=self.registry)
        vllm = _Families(self.registry, "vllm:", {"model_name": model_name, "engine": "0"})
        headrace = _Families(self.registry, "headrace_", {"model_name": model_name})
        self._declare_vllm(vllm)
        self._declare_vllm_histograms(vllm, max_model_len)
        self._declare_vllm_phases(vllm, max_model_len)
        self._declare_requests(headrace)
        self._declare_latencies(headrace, slo)
        self._declare_engine(headrace)
        self.http = HttpMetrics(self.registry)
        self._begin_at_zero()

    def render(self) -> bytes:
        """The text exposition of this moment."""
        return generate_latest(self.registry)

    def _begin_at_zero(self) -> None:
        """A series that appears with its first event hides that event from every rate."""
        for reason in FINISHED_REASONS:
            self.request_success.labels(self.model_name, "0", reason)
        for reason in WAITING_REASONS:
            self.requests_waiting_by_reason.labels(self.model_name, "0", reason)
        for reason in REJECTION_REASONS:
            self.rejections.labels(self.model_name, reason)
        for hold in Hold:
            self.holds.labels(self.model_name, hold.value)
        for source in PROMPT_SOURCES:
            self.prompt_tokens_by_source.labels(self.model_name, "0", source)
        self.prompt_tokens_cached_by_source.labels(self.model_name, "0", CACHED_ON)
        for flag in VLLM_REJECTIONS.values():
            self.vllm_rejections.labels(self.model_name, flag)
        for outcome in OUTCOMES:
            self.finished.labels(self.model_name, outcome)

    def _declare_vllm(self, vllm: _Families) -> None:
        self.requests_running = vllm.gauge("num_requests_running", "Requests in the batch.")
        self.requests_waiting = vllm.gauge("num_requests_waiting", "Requests in the queue.")
        self.requests_waiting_by_reason = vllm.gauges(
            "num_requests_waiting_by_reason", "The same, by what they wait for: capacity.", "reason"
        )
        self.kv_cache_usage = vllm.gauge("kv_cache_usage_perc", "Share of KV blocks held, 0 to 1.")
        self.preemptions = vllm.counter("num_preemptions", "Running requests that lost their blocks.")
        self.prompt_tokens = vllm.counter("prompt_tokens", "Prompt tokens of requests scheduled.")
        self.prompt_tokens_by_source = vllm.counters(
            "prompt_tokens_by_source",
            "Prompt tokens of requests scheduled, by where they came from.",
            "source",
        )
        self.prompt_tokens_cached = vllm.counter("prompt_tokens_cached", "Prompt tokens not computed.")
        self.prompt_tokens_cached_by_source = vllm.counters(
            "prompt_tokens_cached_by_source", "The same, by where their KV stood: device.", "source"
        )
        self.generation_tokens = vllm.counter("generation_tokens", "Tokens generated, stop ids included.")
        self.prefix_queries = vllm.counter("prefix_cache_queries", "Prompt tokens looked up.")
        self.prefix_hits = vllm.counter("prefix_cache_hits", "Prompt tokens found in the prefix cache.")
        self.request_success = vllm.counters(
            "request_success", "Requests ended, by reason.", "finished_reason"
        )
        self.cache_config = vllm.gauges(
            *("cache_config_info", "The KV cache; always 1."),
            *("block_size", "num_gpu_blocks", "enable_prefix_caching", "cache_dtype"),
        )

    def _declare_vllm_histograms(self, vllm: _Families, max_model_len: int) -> None:
        self.ttft = vllm.histogram(
            "time_to_first_token_seconds", "From arrival to the first token.", buckets.TTFT_S
        )
        self.itl = vllm.step_histogram("inter_token_latency_seconds", "Between tokens.", buckets.ITL_S)
        self.e2e = vllm.histogram(
            "e2e_request_latency_seconds", "From arrival to the end.", buckets.LATENCY_S
        )
        self.queue_time = vllm.histogram(
            "request_queue_time_seconds", "From arrival to first scheduling.", buckets.LATENCY_S
        )
        self.step_tokens = vllm.histogram("iteration_tokens_total", "Tokens of a step.", buckets.STEP_TOKENS)
        counts = buckets.token_counts(max_model_len)
        self.request_prompt_tokens = vllm.histogram(
            "request_prompt_tokens", "Prompt tokens of a request that finished.", counts
        )
        self.request_generation_tokens = vllm.histogram(
            "request_generation_tokens", "Tokens generated for a request that finished.", counts
        )

    def _declare_vllm_phases(self, vllm: _Families, max_model_len: int) -> None:
        """Of requests that finished, each observed once."""
        self.prefill_time = vllm.histogram(
            "request_prefill_time_seconds", "From first scheduling to the first token.", buckets.LATENCY_S
        )
        self.decode_time = vllm.histogram(
            "request_decode_time_seconds", "From the first token to the last.", buckets.LATENCY_S
        )
        self.inference_time = vllm.histogram(
            "request_inference_time_seconds", "From first scheduling to the last token.", buckets.LATENCY_S
        )
        self.time_per_output_token = vllm.histogram(
            *("request_time_per_output_token_seconds", "Mean between tokens, of two tokens or more."),
            buckets.ITL_S,
        )
        self.request_preemptions = vllm.histogram(
            "request_num_preemptions", "How often a request lost its blocks.", buckets.PREEMPTIONS
        )
        self.request_outputs = vllm.histogram(
            "request_params_n", "Outputs that were asked for of a prompt.", buckets.OUTPUTS
        )
        counts = buckets.token_counts(max_model_len)
        self.request_max_tokens = vllm.histogram(
            "request_params_max_tokens", "Tokens that a request asked for at most.", counts
        )
        self.request_max_generation_tokens = vllm.histogram(
            "request_max_num_generation_tokens", "Tokens of a prompt's longest output.", counts
        )
        self.request_computed_tokens = vllm.histogram(
            "request_prefill_kv_computed_tokens", "Prompt tokens of a request that were computed.", counts
        )

    def _declare_requests(self, headrace: _Families) -> None:
        self.received = headrace.counter("requests_received", "Requests that reached admission.")
        self.rejections = headrace.counters(
            "request_rejections", "Requests refused at admission, or expired in the queue.", "reason"
        )
        self.vllm_rejections = Counter(
            *("vllm:admission_rejections", "Requests refused because the queue was full, by its bound."),
            ["model_name", "reason"],
            registry=self.registry,
        )
        self.finished = headrace.counters(
            "requests_finished", "Requests answered, by SLO outcome.", "outcome"
        )
        self.good = headrace.counter("requests_good", "Requests that met the declared TTFT and mean ITL.")
        self.aborted = headrace.counter(
            "requests_aborted", "Requests whose client left, or that a drain's deadline cut off."
        )
        self.in_flight = headrace.gauge("in_flight", "Requests accepted and not ended.")

    def _declare_latencies(self, headrace: _Families, slo: SLO) -> None:
        queue_bounds = buckets.with_edges(buckets.FINE_S, slo.queue_deadline_s, slo.ttft_s)
        self.fine_queue_time = headrace.histogram(
            "queue_time_seconds", "From arrival to first scheduling.", queue_bounds
        )
        self.fine_ttft = headrace.histogram(
            *("time_to_first_token_seconds", "From arrival to the first token."),
            buckets.with_edges(buckets.FINE_S, slo.ttft_s),
        )
        self.fine_itl = headrace.step_histogram(
            *("inter_token_latency_seconds", "Between tokens."), buckets.with_edges(buckets.FINE_S, slo.itl_s)
        )

    def _declare_engine(self, headrace: _Families) -> None:
        self.oldest_waiting_age = headrace.gauge(
            "oldest_waiting_age_seconds", "Age of the oldest request never scheduled; 0 if there is none."
        )
        self.waiting_tokens = headrace.gauge("waiting_tokens", "Prompt tokens of requests never scheduled.")
        self.limit = headrace.gauges("limit", "Active scheduler limits.", "name")
        self.capacity = headrace.gauges("capacity", "What the engine was started with.", "name")
        self.policy = headrace.gauges("scheduling_policy", "1 for the active policy.", "policy")
        self.holds = headrace.counters(
            "admission_holds",
            "Requests that a step looked at and did not admit, by what held them.",
            "reason",
        )
        self.admissions_by_share = headrace.counter(
            "admissions_by_share", "Requests first scheduled while their tenant was owed of its min_share."
        )
        self.unaccounted = headrace.gauge(
            "requests_unaccounted", "Accepted requests neither live nor ended; anything but 0 is a fault."
        )
        self.tenants_digest = headrace.gauge(
            "tenants_digest", "Another number for other terms of tenants, the same for the same."
        )
        self.limits_revision = headrace.gauge("limits_revision", "Counts the changes of the limits.")
        self.step_budget_used = headrace.histogram(
            "step_budget_used_ratio",
            "Share of max_num_batched_tokens that a step used.",
            buckets.BUDGET_RATIO,
        )
        self.step_seconds = headrace.histogram("step_seconds", "Duration of a step.", buckets.FINE_S)
        self.draining = headrace.gauge("draining", "1 while the engine drains.")
        self.start_time = headrace.gauge("start_time_seconds", "When the engine became ready, Unix time.")
