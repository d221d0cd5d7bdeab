"""Feeds the metrics from step reports, and from nothing else.

One report is recorded whole before a scrape can see any of it, so every scrape adds up:
received = finished + rejected + aborted + in flight. Times come from the loop's monotonic clock.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields

from headrace_engine.core.contract import Contract
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Preempted, Rejection, Scheduled, Tokens
from headrace_engine.core.policies import PolicyName
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.snapshot import Snapshot
from headrace_engine.telemetry.gauges import Gauges
from headrace_engine.telemetry.metrics import (
    CACHED_ON,
    PROMPT_SOURCES,
    QUEUE_DEADLINE,
    SLO,
    VLLM_REJECTIONS,
    Metrics,
)
from headrace_engine.telemetry.outputs import Outputs
from headrace_engine.telemetry.report import Step, StepReport
from headrace_engine.telemetry.timeline import Timeline, TimelineEnded

log = logging.getLogger(__name__)


class Recorder:
    """Keeps a timeline for each request in flight, and hands it to each of `on_end` when it is over."""

    def __init__(
        self,
        metrics: Metrics,
        slo: SLO,
        clock: Callable[[], float] = time.monotonic,
        *,
        on_end: Sequence[TimelineEnded] = (),
    ) -> None:
        self._metrics = metrics
        self._slo = slo
        self._clock = clock
        self._on_end = tuple(on_end)
        self._gauges = Gauges(metrics, clock)
        self._timelines: dict[str, Timeline] = {}
        self._outputs = Outputs()
        self._generated_tokens = 0
        self._gaps_s: Counter[float] = Counter()
        """Of the report at hand: a step's tokens are many, and what they say of themselves is the same."""

    def record(self, report: StepReport) -> None:
        self._metrics.received.inc(len(report.accepted) + len(report.rejected))
        for request in report.accepted:
            self._timelines[request.request_id] = Timeline(request)
            self._outputs.began(request)
        for request, rejection in report.rejected:
            self._refused(request, rejection, report.now_s)
        for event in report.events:
            timeline = self._timelines[event.request_id]
            match event:
                case Scheduled():
                    self._scheduled(event, timeline)
                case Tokens():
                    self._tokens(timeline, len(event.token_ids), report.now_s)
                case Preempted():
                    self._metrics.preemptions.inc()
                    timeline.preempted_s.append(report.now_s)
                    self._log_preemption(event, report.snapshot)
                case Finished():
                    self._finished(event, timeline, report.now_s)
        self._tokens_of_report()
        if report.step is not None:
            self._step(report.step, report.limits)
        self._gauges.show(report, num_timelines=len(self._timelines))

    def refuse(self, request: Request, rejection: Rejection) -> None:
        """One that the engine core was never asked to take."""
        self._metrics.received.inc()
        self._refused(request, rejection, self._clock())

    def record_start(self, capacity: Capacity, cache: dict[str, str]) -> None:
        """What does not change while the engine runs."""
        for entry in fields(capacity):
            self._metrics.capacity.labels(self._metrics.model_name, entry.name).set(
                getattr(capacity, entry.name)
            )
        self._metrics.cache_config.labels(model_name=self._metrics.model_name, engine="0", **cache).set(1)
        self._metrics.start_time.set_to_current_time()

    def record_rules(self, limits: Limits, policy: PolicyName, revision: int) -> None:
        for name in PolicyName:
            self._metrics.policy.labels(self._metrics.model_name, name.value).set(name is policy)
        for entry in fields(limits):
            self._metrics.limit.labels(self._metrics.model_name, entry.name).set(getattr(limits, entry.name))
        self._metrics.limits_revision.set(revision)

    def record_terms(self, contract: Contract) -> None:
        self._metrics.tenants_digest.set(contract.digest)

    def _scheduled(self, event: Scheduled, timeline: Timeline) -> None:
        metrics = self._metrics
        timeline.first_scheduled_s = timeline.arrival_s + event.queue_time_s
        timeline.cached_tokens = event.cached_tokens
        metrics.queue_time.observe(event.queue_time_s)
        metrics.fine_queue_time.observe(event.queue_time_s)
        metrics.admissions_by_share.inc(event.by_share)
        metrics.prompt_tokens.inc(timeline.num_prompt_tokens)
        metrics.prefix_queries.inc(timeline.num_prompt_tokens)
        metrics.prefix_hits.inc(event.cached_tokens)
        metrics.prompt_tokens_cached.inc(event.cached_tokens)
        metrics.prompt_tokens_cached_by_source.labels(metrics.model_name, "0", CACHED_ON).inc(
            event.cached_tokens
        )
        computed_tokens = timeline.num_prompt_tokens - event.cached_tokens
        for source, count in zip(PROMPT_SOURCES, (computed_tokens, event.cached_tokens), strict=True):
            metrics.prompt_tokens_by_source.labels(metrics.model_name, "0", source).inc(count)

    def _tokens(self, timeline: Timeline, count: int, now_s: float) -> None:
        metrics = self._metrics
        if timeline.first_token_s is None:
            timeline.first_token_s = now_s
            metrics.ttft.observe(now_s - timeline.arrival_s)
            metrics.fine_ttft.observe(now_s - timeline.arrival_s)
        else:
            self._gaps_s[now_s - timeline.last_token_s] += 1
        timeline.last_token_s = now_s
        timeline.num_tokens += count
        self._generated_tokens += count

    def _tokens_of_report(self) -> None:
        self._metrics.generation_tokens.inc(self._generated_tokens)
        for gap_s, count in self._gaps_s.items():
            self._metrics.itl.observe_many(gap_s, count)
            self._metrics.fine_itl.observe_many(gap_s, count)
        self._generated_tokens = 0
        self._gaps_s.clear()

    def _finished(self, event: Finished, timeline: Timeline, now_s: float) -> None:
        if event.stop_token_id is not None:
            self._tokens(timeline, 1, now_s)
        del self._timelines[event.request_id]
        self._output_ended(timeline, is_answered=event.reason in (FinishReason.STOP, FinishReason.LENGTH))
        self._end(timeline, event.reason.value, now_s)
        match event.reason:
            case FinishReason.EXPIRED:
                self._rejected(QUEUE_DEADLINE)
                return
            case FinishReason.ABORT:
                self._metrics.aborted.inc()
            case FinishReason.ERROR:
                self._outcome("failed")
            case FinishReason.STOP | FinishReason.LENGTH:
                self._answered(timeline, now_s)
        self._metrics.request_success.labels(self._metrics.model_name, "0", event.reason.value).inc()

    def _output_ended(self, timeline: Timeline, *, is_answered: bool) -> None:
        prompt = self._outputs.ended(timeline.request, timeline.num_tokens, is_answered=is_answered)
        if prompt is not None:
            self._metrics.request_outputs.observe(prompt.num_outputs)
            self._metrics.request_max_generation_tokens.observe(prompt.longest_tokens)

    def _answered(self, timeline: Timeline, now_s: float) -> None:
        metrics = self._metrics
        metrics.e2e.observe(now_s - timeline.arrival_s)
        metrics.request_prompt_tokens.observe(timeline.num_prompt_tokens)
        metrics.request_generation_tokens.observe(timeline.num_tokens)
        self._phases(timeline)
        good = self._met_slo(timeline, now_s)
        self._outcome("good" if good else "late")
        if good:
            metrics.good.inc()

    def _phases(self, timeline: Timeline) -> None:
        metrics, scheduled_s, first_token_s = (
            self._metrics,
            timeline.first_scheduled_s,
            timeline.first_token_s,
        )
        metrics.request_max_tokens.observe(timeline.request.max_tokens)
        metrics.request_computed_tokens.observe(timeline.num_prompt_tokens - timeline.cached_tokens)
        metrics.request_preemptions.observe(len(timeline.preempted_s))
        if scheduled_s is None or first_token_s is None:
            return
        metrics.prefill_time.observe(first_token_s - scheduled_s)
        metrics.decode_time.observe(timeline.last_token_s - first_token_s)
        metrics.inference_time.observe(timeline.last_token_s - scheduled_s)
        if timeline.num_tokens > 1:
            metrics.time_per_output_token.observe(timeline.mean_itl_s())

    def _met_slo(self, timeline: Timeline, now_s: float) -> bool:
        """Of a request that asks for no token, the answer is what its client waits for."""
        slo, first_s = self._slo, timeline.first_token_s
        waited_s = (now_s if first_s is None else first_s) - timeline.arrival_s
        if slo.ttft_s is not None and waited_s > slo.ttft_s:
            return False
        return slo.itl_s is None or timeline.mean_itl_s() <= slo.itl_s

    def _step(self, step: Step, limits: Limits) -> None:
        for hold in step.holds:
            self._metrics.holds.labels(self._metrics.model_name, hold.value).inc()
        self._metrics.step_tokens.observe(step.num_tokens)
        self._metrics.step_seconds.observe(step.duration_s)
        self._metrics.step_budget_used.observe(step.num_tokens / limits.max_num_batched_tokens)

    def _log_preemption(self, event: Preempted, after: Snapshot) -> None:
        usage = {
            "kv_usage_before": round(self._gauges.kv_usage_ratio, 3),
            "kv_usage_after": round(after.kv_usage_ratio, 3),
        }
        lost = {"preempted": event.request_id, "lost_tokens": event.lost_tokens}
        log.info("preempted", extra=lost | usage)

    def _refused(self, request: Request, rejection: Rejection, now_s: float) -> None:
        self._rejected(rejection.reason)
        self._end(Timeline(request), rejection.reason, now_s)

    def _end(self, timeline: Timeline, outcome: str, now_s: float) -> None:
        timeline.ended_s, timeline.outcome = now_s, outcome
        for told in self._on_end:
            told(timeline)

    def _rejected(self, reason: str) -> None:
        self._metrics.rejections.labels(self._metrics.model_name, reason).inc()
        if (flag := VLLM_REJECTIONS.get(reason)) is not None:
            self._metrics.vllm_rejections.labels(self._metrics.model_name, flag).inc()

    def _outcome(self, outcome: str) -> None:
        self._metrics.finished.labels(self._metrics.model_name, outcome).inc()
