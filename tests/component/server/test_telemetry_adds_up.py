"""Counts reconcile after any load, latencies have one observation each, no client's text is anywhere."""

import json
import logging
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace_engine.telemetry.logs import JsonLines
from headrace_engine.telemetry.metrics import SLO

OUTCOMES = (
    "headrace_requests_finished_total",
    "headrace_request_rejections_total",
    "headrace_requests_aborted_total",
)


def test_every_request_of_a_random_load_is_accounted_for(start) -> None:
    server = start(max_num_seqs=3, max_num_queued_reqs=4, queue_deadline_s=0.08, step_s=0.004, num_blocks=24)
    chance = random.Random(5)

    def visit(seed: int) -> str:
        mine = random.Random(seed)
        body = {"model": "alphabet", "prompt": "a" * mine.randint(1, 40), "max_tokens": mine.randint(1, 30)}
        body |= {"stream": mine.random() < 0.5, "ignore_eos": mine.random() < 0.5}
        with server.http.stream("POST", server.url + "/v1/completions", json=body) as response:
            if mine.random() < 0.3:
                return "left"
            response.read()
            return str(response.status_code)

    with ThreadPoolExecutor(12) as pool:
        seen = list(pool.map(visit, [chance.randrange(10**9) for _ in range(60)]))
    assert {"200", "429"} <= set(seen)
    server.eventually(lambda: server.metric("headrace_in_flight") == 0)
    received = server.metric("headrace_requests_received_total")
    assert received == sum(server.metric(name) for name in OUTCOMES) == 60
    refused = server.metric("headrace_request_rejections_total")
    assert refused >= seen.count("429")
    scheduled = server.metric("headrace_queue_time_seconds_count")
    assert server.metric("vllm:request_queue_time_seconds_count") == scheduled
    assert server.metric("headrace_time_to_first_token_seconds_count") <= scheduled <= received - refused
    assert server.metric("vllm:e2e_request_latency_seconds_count") == server.metric(OUTCOMES[0])
    assert server.metric("vllm:kv_cache_usage_perc") == 0


def test_every_scrape_under_load_adds_up(start) -> None:
    server = start(max_num_seqs=2, step_s=0.002)
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 20}
    with ThreadPoolExecutor(8) as pool:
        load = [pool.submit(server.post, "/v1/completions", body) for _ in range(40)]
        while not all(each.done() for each in load):
            samples = {}
            for name, _, value in server.samples():
                samples[name] = samples.get(name, 0) + value
            ended = sum(samples.get(name, 0) for name in OUTCOMES)
            assert samples["headrace_requests_received_total"] == ended + samples["headrace_in_flight"]


def test_tokens_are_counted_once(start) -> None:
    server = start()
    answers = [
        server.post("/v1/completions", {"model": "alphabet", "prompt": "vw", "max_tokens": n}).json()["usage"]
        for n in (1, 2, 9)
    ]
    assert server.metric("vllm:prompt_tokens_total") == sum(usage["prompt_tokens"] for usage in answers)
    generated = sum(usage["completion_tokens"] for usage in answers)
    assert server.metric("vllm:generation_tokens_total") == generated
    assert server.metric("vllm:request_generation_tokens_sum") == generated
    assert server.metric("vllm:time_to_first_token_seconds_count") == 3
    assert server.metric("vllm:inter_token_latency_seconds_count") == generated - 3
    assert server.metric("vllm:request_success_total", finished_reason="length") == 2
    assert server.metric("vllm:request_success_total", finished_reason="stop") == 1


def test_a_declared_slo_is_an_edge_of_the_buckets_and_judges_requests(start) -> None:
    server = start(slo=SLO(ttft_s=33.7, itl_s=0.0123, queue_deadline_s=17.5), step_s=0.02)
    server.post("/v1/completions", {"model": "alphabet", "prompt": "a", "max_tokens": 1})
    server.post("/v1/completions", {"model": "alphabet", "prompt": "a", "max_tokens": 3})
    edges = {(name, labels["le"]) for name, labels, _ in server.samples() if name.endswith("_bucket")}
    assert server.metric("headrace_requests_finished_total", outcome="failed") == 0
    assert ("headrace_requests_finished_total", "failed") in {
        (name, labels.get("outcome")) for name, labels, _ in server.samples()
    }
    assert ("headrace_time_to_first_token_seconds_bucket", "33.7") in edges
    assert ("headrace_inter_token_latency_seconds_bucket", "0.0123") in edges
    assert ("headrace_queue_time_seconds_bucket", "17.5") in edges
    assert ("headrace_queue_time_seconds_bucket", "0.001") in edges
    assert server.metric("headrace_requests_finished_total", outcome="good") == 1
    assert server.metric("headrace_requests_finished_total", outcome="late") == 1
    assert server.metric("headrace_requests_good_total") == 1


def test_the_names_that_scalers_and_dashboards_ask_for(start) -> None:
    server = start()
    server.post("/v1/completions", {"model": "alphabet", "prompt": "a", "max_tokens": 2})
    labels = {"model_name": "alphabet", "engine": "0"}
    found = {(name, tuple(sorted(given.items()))) for name, given, _ in server.samples()}
    for name in (
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:num_preemptions_total",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:time_to_first_token_seconds_sum",
        "vllm:iteration_tokens_total_sum",
    ):
        assert (name, tuple(sorted(labels.items()))) in found, name
    assert server.metric("vllm:cache_config_info", block_size="4", num_gpu_blocks="128") == 1
    assert server.metric("headrace_capacity", name="max_num_seqs") == 8
    assert server.metric("headrace_start_time_seconds") > 1e9
    assert not any(name.endswith("_created") for name, _ in found)
    head = server.http.head(server.url + "/metrics")
    assert head.headers["content-type"].startswith("text/plain; version=")


def test_the_time_that_an_upload_takes_is_the_clients_own(start) -> None:
    server = start()
    body = json.dumps({"model": "alphabet", "prompt": "a", "max_tokens": 2}).encode()
    lines = ["POST /v1/completions HTTP/1.1", "Host: x", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    with server.connect() as connection:
        connection.sendall("\r\n".join(lines).encode())
        for byte in body[:-1]:
            connection.sendall(bytes([byte]))
            time.sleep(0.005)
        last_s = time.monotonic()
        connection.sendall(body[-1:])
        assert b" 200 OK" in server.read_all(connection).splitlines()[0]
        since_the_last_byte_s = time.monotonic() - last_s
    assert server.metric("vllm:time_to_first_token_seconds_sum") <= since_the_last_byte_s
    assert server.metric("headrace_queue_time_seconds_sum") <= since_the_last_byte_s


def test_series_do_not_grow_with_what_clients_send(start) -> None:
    server = start()
    server.post("/v1/completions", {"model": "alphabet", "prompt": "a", "max_tokens": 2})
    before = len(server.samples())
    for number in range(50):
        body = {"model": f"model-{number}", "prompt": "a", "user": f"user-{number}"}
        server.post(f"/v1/completions?path={number}", body, headers={"x-request-id": f"id-{number}"})
    assert len(server.samples()) <= before + 10


@pytest.mark.parametrize("poison", ["", "~"], ids=["answered", "failed"])
def test_no_prompt_is_ever_logged(start, caplog, poison) -> None:
    with caplog.at_level(logging.DEBUG):
        server = start()
        server.post("/v1/completions", {"model": "alphabet", "prompt": f"canary{poison}", "max_tokens": 3})
        server.post("/v1/completions", {"model": "canary-model", "prompt": "canary"})
        server.terminate()
        server.ended()
    lines = [JsonLines().format(record) for record in caplog.records if record.name.startswith("headrace")]
    assert lines
    assert not [line for line in lines if "canary" in line]


def test_a_log_line_cannot_be_forged(start, caplog) -> None:
    with caplog.at_level(logging.INFO):
        server = start()
        server.raw(
            b"GET /%0d%0a%1b[31m%22,%22level%22:%22forged HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        server.eventually(lambda: any(record.message == "request" for record in caplog.records))
    line = next(JsonLines().format(record) for record in caplog.records if record.message == "request")
    assert "\n" not in line
    assert "\x1b" not in line
    assert json.loads(line)["level"] == "info"
    assert json.loads(line)["status"] == 404
