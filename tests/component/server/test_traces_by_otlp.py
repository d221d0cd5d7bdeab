"""Spans reach a collector by OTLP over HTTP, in the client's trace, and say where the time went."""

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "zebra"


class Collector:
    """What an OTLP receiver got."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.paths.add(self.path)
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans() if span.name == name]


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture
def traced(start, collector):
    """Starts an engine that exports; `end` stops it, which sends what is left."""

    class Traced:
        def __init__(self, **options: Any) -> None:
            self.engine = start(otlp_traces_endpoint=collector.url, **options)

        def end(self) -> None:
            self.engine.terminate()
            self.engine.ended()

    return Traced


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def ask(engine: Any, headers: dict[str, str] | None = None, **body: Any) -> Any:
    document = {"model": "alphabet", "prompt": SECRET, "max_tokens": 4, "temperature": 0.5} | body
    return engine.post("/v1/completions", document, headers=headers or {})


def test_a_request_continues_its_clients_trace(traced, collector) -> None:
    running = traced()
    ask(running.engine, {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine-1"})
    running.end()
    (root,) = collector.named("llm_request")
    assert (root.trace_id.hex(), root.parent_span_id.hex(), root.kind) == (TRACE, PARENT, 2)
    assert attributes(root)["headrace.request_id"] == "mine-1"
    assert collector.paths == {"/v1/traces"}
    children = [span for span in collector.spans() if span.parent_span_id == root.span_id]
    assert sorted(span.name for span in children) == ["decode", "prefill", "queue"]


def test_the_phases_fill_the_request_without_a_gap(traced, collector) -> None:
    running = traced(step_s=0.005)
    ask(running.engine)
    running.end()
    (root,), (queue,) = collector.named("llm_request"), collector.named("queue")
    (prefill,), (decode,) = collector.named("prefill"), collector.named("decode")
    edges = [root.start_time_unix_nano, queue.start_time_unix_nano, queue.end_time_unix_nano]
    edges += [prefill.start_time_unix_nano, prefill.end_time_unix_nano, decode.start_time_unix_nano]
    edges += [decode.end_time_unix_nano, root.end_time_unix_nano]
    assert edges == sorted(edges)
    assert edges[0] == edges[1]
    assert (edges[2], edges[4], edges[6]) == (edges[3], edges[5], edges[7])
    said = attributes(root)
    assert said["gen_ai.latency.e2e"] == pytest.approx((edges[-1] - edges[0]) / 1e9, abs=1e-4)
    assert said["gen_ai.latency.time_in_model_decode"] >= 3 * 0.005


def test_the_attributes_are_vllms_and_hold_no_text(traced, collector) -> None:
    running = traced()
    answer = ask(running.engine).json()
    running.end()
    said = attributes(collector.named("llm_request")[0])
    assert said["gen_ai.request.id"].startswith(answer["id"])
    expected = {
        "gen_ai.request.max_tokens": 4,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.usage.prompt_tokens": 5,
        "gen_ai.usage.completion_tokens": 4,
        "headrace.outcome": "length",
    }
    assert said.items() >= expected.items()
    assert {
        f"gen_ai.latency.time_in_model_{name}" for name in ("prefill", "decode", "inference")
    } <= said.keys()
    everything = b"".join(request.SerializeToString() for request in collector.requests)
    assert SECRET.encode() not in everything
    assert answer["choices"][0]["text"].encode() not in everything


def test_a_preempted_request_says_when(traced, collector) -> None:
    running = traced(num_blocks=8, max_num_seqs=2)
    running.engine.model.may_step.clear()
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(ask, running.engine, prompt="a", max_tokens=20)
        core = running.engine.process.service.serving().engine
        running.engine.eventually(lambda: core.num_unanswered == 2)
        running.engine.step_on()
    assert running.engine.metric("vllm:num_preemptions_total") > 0
    running.end()
    events = [event for root in collector.named("llm_request") for event in root.events]
    assert {event.name for event in events} == {"preempted"}


def test_a_refused_request_is_a_span_with_an_error(traced, collector) -> None:
    running = traced(num_blocks=4)
    assert ask(running.engine, prompt="a" * 60).status_code == 400
    running.end()
    (refused,) = collector.named("llm_request")
    assert (refused.status.code, refused.status.message) == (2, "never_fits")
    assert "gen_ai.latency.time_to_first_token" not in attributes(refused)


@pytest.mark.parametrize("header", ["", "00-xyz", "00-" + "0" * 32 + f"-{PARENT}-01", "ÿ" * 400])
def test_a_bad_traceparent_costs_nothing_but_its_trace(traced, collector, header) -> None:
    running = traced()
    assert ask(running.engine, {"traceparent": header.encode("latin-1")}).status_code == 200
    running.end()
    (root,) = collector.named("llm_request")
    assert not root.parent_span_id


def test_a_trace_that_its_client_does_not_record_is_not_recorded_here(traced, collector) -> None:
    running = traced()
    ask(running.engine, {"traceparent": f"00-{TRACE}-{PARENT}-00"})
    running.end()
    assert not collector.spans()


def test_a_collector_that_is_gone_costs_no_request_and_no_exit(start) -> None:
    engine = start(otlp_traces_endpoint="http://127.0.0.1:9")
    assert ask(engine).status_code == 200
    engine.terminate()
    assert engine.ended() == 0


def test_an_engine_that_does_not_export_loads_no_sdk() -> None:
    code = "import headrace_engine.server.main, sys; print('opentelemetry.sdk.trace' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
