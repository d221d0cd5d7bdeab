"""The dashboards that vLLM ships, panel by panel: what each queries is in our scrape, with the labels that it
selects by, and moves where the panel shows a rate.

Panels of what is not here (a cache elsewhere, images, drafts) query series that do not exist, and say so.
"""

import pytest

MODEL = {"model_name": "alphabet"}
E2E, TTFT, ITL = (
    *("vllm:e2e_request_latency_seconds", "vllm:time_to_first_token_seconds"),
    "vllm:inter_token_latency_seconds",
)
TPOT, QUEUE = "vllm:request_time_per_output_token_seconds", "vllm:request_queue_time_seconds"
PROMPT, OUTPUT, STEP = (
    *("vllm:request_prompt_tokens", "vllm:request_generation_tokens"),
    "vllm:iteration_tokens_total",
)


def histogram(name: str) -> list[tuple[str, dict[str, str]]]:
    """Quantiles and means."""
    return [(f"{name}_bucket", {"le": "+Inf"}), (f"{name}_sum", {}), (f"{name}_count", {})]


MOVES = {
    "E2E request latency": histogram(E2E),
    "Time to first token": histogram(TTFT),
    "Inter-token latency": histogram(ITL),
    "Time per output token": histogram(TPOT),
    "Queue time": histogram(QUEUE),
    "Prefill and decode time": [
        (f"vllm:request_{phase}_time_seconds_{part}", {})
        for phase in ("prefill", "decode")
        for part in ("sum", "count")
    ],
    "Share within the TTFT objective": [(f"{TTFT}_bucket", {"le": "2.5"})],
    "Share within the TPOT objective": [(f"{TPOT}_bucket", {"le": "0.1"})],
    "Token throughput": [("vllm:prompt_tokens_total", {}), ("vllm:generation_tokens_total", {})],
    "Prompt length": histogram(PROMPT),
    "Output length": histogram(OUTPUT),
    "Longest output": [("vllm:request_max_num_generation_tokens_sum", {})],
    "Tokens per engine step": histogram(STEP),
    "Finish reason": [("vllm:request_success_total", {"finished_reason": "length"})],
    "Prefix cache hit rate": [
        ("vllm:prefix_cache_hits_total", {}),
        ("vllm:prefix_cache_queries_total", {}),
    ],
    "Prompt tokens by source": [
        ("vllm:prompt_tokens_by_source_total", {"source": source})
        for source in ("local_compute", "local_cache_hit")
    ],
}
STANDS = {
    "Scheduler state": [("vllm:num_requests_running", {}), ("vllm:num_requests_waiting", {})],
    "Waiting by reason": [
        ("vllm:num_requests_waiting_by_reason", {"reason": reason}) for reason in ("capacity", "deferred")
    ],
    "Cache utilization": [("vllm:kv_cache_usage_perc", {})],
    "Preemptions": [("vllm:num_preemptions_total", {})],
    "Errors": [("vllm:request_success_total", {"finished_reason": "error"})],
}
ROUTE = {"handler": "/v1/completions", "method": "POST"}


@pytest.fixture(scope="module")
def samples(server) -> list[tuple[str, dict[str, str], float]]:
    """After two answers, the second to a prompt that is cached, and a refusal."""
    body = {"model": "alphabet", "prompt": "a" * 10, "max_tokens": 5}
    for change in ({}, {}, {"max_tokens": -1}):
        server.post("/v1/completions", body | change)
    server.http.get(server.url + "/nowhere/42")
    return server.samples()


def selected(samples, name: str, labels: dict[str, str]) -> list[float]:
    return [value for sample, found, value in samples if sample == name and labels.items() <= found.items()]


@pytest.mark.parametrize("panel", MOVES)
def test_a_panel_of_rates(samples, panel) -> None:
    for name, labels in MOVES[panel]:
        values = selected(samples, name, MODEL | {"engine": "0"} | labels)
        assert (name, len(values)) == (name, 1)
        assert values[0] > 0


@pytest.mark.parametrize("panel", STANDS)
def test_a_panel_of_levels(samples, panel) -> None:
    for name, labels in STANDS[panel]:
        assert (name, selected(samples, name, MODEL | {"engine": "0"} | labels)) == (name, [0])


def test_the_panels_of_the_api_server(samples) -> None:
    """Traffic by status and by route, the share of 5xx, the mean duration; probes are not counted."""
    assert selected(samples, "http_requests_total", ROUTE | {"status": "2xx"}) == [2]
    assert selected(samples, "http_requests_total", ROUTE | {"status": "4xx"}) == [1]
    assert selected(samples, "http_requests_total", {"handler": "none", "method": "GET"}) == [1]
    assert selected(samples, "http_request_duration_seconds_count", ROUTE) == [3]
    assert selected(samples, "http_request_duration_seconds_sum", ROUTE)[0] > 0
    handlers = {found["handler"] for name, found, _ in samples if name == "http_requests_total"}
    assert handlers == {"/v1/completions", "none"}


def test_the_list_of_models(samples) -> None:
    """The dashboards' variable is every value of `model_name`."""
    assert {found["model_name"] for _, found, _ in samples if "model_name" in found} == {"alphabet"}
