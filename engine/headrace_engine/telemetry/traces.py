"""OpenTelemetry spans of requests: `llm_request` with the children `queue`, `prefill` and `decode`.

Spans are made when a request is over, from its timeline, on the event loop; a thread of the SDK's exports
them. The step loop knows nothing of them. A request whose client sent a W3C `traceparent` continues that
trace, and is not recorded where the client's trace is not. Attributes have vLLM's names; none holds text or
token ids. The SDK's own environment variables (`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`,
`OTEL_EXPORTER_OTLP_HEADERS` and so on) hold.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headrace_engine.core.request import FinishReason, Request
from headrace_engine.telemetry.logs import request_id_in_log
from headrace_engine.telemetry.otlp_endpoint import traces_url
from headrace_engine.telemetry.timeline import Timeline
from headrace_engine.telemetry.trace_context import trace_headers

EXPORT_TIMEOUT_S = 5
_WELL = frozenset({FinishReason.STOP.value, FinishReason.LENGTH.value, FinishReason.ABORT.value})


class _Origin(NamedTuple):
    """Where a request came from."""

    context: Context
    request_id: str | None


class Traces:
    """Lives on the event loop. `submitted` is called where a request is handled, `ended` when it is over."""

    def __init__(
        self, provider: TracerProvider, model_name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("headrace_engine", version("headrace"))
        self._model_name = model_name
        self._clock = clock
        self._origins: dict[str, _Origin] = {}
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def to(cls, endpoint: str, model_name: str) -> "Traces":
        """Exported by OTLP over HTTP; `endpoint` is a collector's URL, `/v1/traces` where it has no path."""
        service = os.environ.get("OTEL_SERVICE_NAME", "headrace-engine")
        provider = TracerProvider(
            resource=Resource.create({"service.name": service, "service.version": version("headrace")}),
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=traces_url(endpoint), timeout=EXPORT_TIMEOUT_S)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return cls(provider, model_name)

    def submitted(self, requests: Sequence[Request]) -> None:
        origin = _Origin(self._propagator.extract(trace_headers.get({})), request_id_in_log.get())
        self._origins |= {request.request_id: origin for request in requests}

    def ended(self, timeline: Timeline) -> None:
        origin = self._origins.pop(timeline.request.request_id)
        offset_ns = time.time_ns() - int(self._clock() * 1e9)

        def unix_ns(seconds: float) -> int:
            return offset_ns + int(seconds * 1e9)

        span = self._tracer.start_span(
            "llm_request",
            context=origin.context,
            kind=SpanKind.SERVER,
            start_time=unix_ns(timeline.arrival_s),
        )
        if span.is_recording():
            self._describe(span, timeline, origin)
            for preempted_s in timeline.preempted_s:
                span.add_event("preempted", timestamp=unix_ns(preempted_s))
            inside = set_span_in_context(span)
            for name, begin_s, end_s in _phases(timeline):
                child = self._tracer.start_span(name, context=inside, start_time=unix_ns(begin_s))
                child.end(unix_ns(end_s))
        span.end(unix_ns(timeline.ended_s))

    def close(self) -> None:
        """Exports what is left, for a few seconds. Blocks: call it off the event loop."""
        self._provider.force_flush(EXPORT_TIMEOUT_S * 1000)
        self._provider.shutdown()

    def _describe(self, span: Span, timeline: Timeline, origin: _Origin) -> None:
        request, sampling = timeline.request, timeline.request.sampling
        attributes: dict[str, str | int | float | None] = {
            "gen_ai.response.model": self._model_name,
            "gen_ai.request.id": request.request_id,
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.request.temperature": sampling.temperature,
            "gen_ai.request.top_p": sampling.top_p,
            "gen_ai.usage.prompt_tokens": timeline.num_prompt_tokens,
            "gen_ai.usage.completion_tokens": timeline.num_tokens,
            "headrace.request_id": origin.request_id,
            "headrace.usage.cached_tokens": timeline.cached_tokens,
            "headrace.outcome": timeline.outcome,
            **_latencies(timeline),
        }
        span.set_attributes({name: value for name, value in attributes.items() if value is not None})
        if timeline.outcome not in _WELL:
            span.set_status(Status(StatusCode.ERROR, timeline.outcome))


def _phases(timeline: Timeline) -> Iterator[tuple[str, float, float]]:
    """The phases that a request got to, each with its begin and end; the last one ends with the request."""
    scheduled_s, first_token_s, end_s = timeline.first_scheduled_s, timeline.first_token_s, timeline.ended_s
    yield "queue", timeline.arrival_s, end_s if scheduled_s is None else scheduled_s
    if scheduled_s is not None:
        yield "prefill", scheduled_s, end_s if first_token_s is None else first_token_s
    if first_token_s is not None:
        yield "decode", first_token_s, end_s


def _latencies(timeline: Timeline) -> dict[str, float | None]:
    """In seconds; None for what the request never got to."""
    scheduled_s, first_s, end_s = timeline.first_scheduled_s, timeline.first_token_s, timeline.ended_s
    return {
        "gen_ai.latency.time_in_queue": _between(timeline.arrival_s, scheduled_s),
        "gen_ai.latency.time_to_first_token": _between(timeline.arrival_s, first_s),
        "gen_ai.latency.e2e": end_s - timeline.arrival_s,
        "gen_ai.latency.time_in_model_prefill": _between(scheduled_s, first_s),
        "gen_ai.latency.time_in_model_decode": _between(first_s, end_s),
        "gen_ai.latency.time_in_model_inference": _between(scheduled_s, end_s),
    }


def _between(begin_s: float | None, end_s: float | None) -> float | None:
    return None if begin_s is None or end_s is None else end_s - begin_s
