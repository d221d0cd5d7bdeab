"""What dashboards, scalers and gateways made for vLLM query is there, with vLLM's labels, and moves."""

from concurrent.futures import ThreadPoolExecutor

import pytest

LABELS = {"model_name": "alphabet", "engine": "0"}
HISTOGRAMS = (
    "vllm:e2e_request_latency_seconds",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
    "vllm:request_inference_time_seconds",
    "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens",
    "vllm:request_max_num_generation_tokens",
    "vllm:request_params_max_tokens",
    "vllm:request_prefill_kv_computed_tokens",
    "vllm:request_num_preemptions",
    "vllm:iteration_tokens_total",
)
COUNTERS = {
    "vllm:prompt_tokens_total": 20,
    "vllm:prompt_tokens_cached_total": 8,
    "vllm:generation_tokens_total": 10,
    "vllm:prefix_cache_queries_total": 20,
    "vllm:prefix_cache_hits_total": 8,
}
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")


@pytest.fixture(scope="module")
def asked(server):
    """The same prompt of 10 tokens twice, one after the other, for 5 tokens each; blocks have 4."""
    for _ in range(2):
        body = {"model": "alphabet", "prompt": "a" * 10, "max_tokens": 5}
        assert server.post("/v1/completions", body).status_code == 200
    return server


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_a_quantile_of(asked, name) -> None:
    assert asked.metric(f"{name}_count", **LABELS) >= 2
    assert asked.metric(f"{name}_bucket", **LABELS, le="+Inf") == asked.metric(f"{name}_count", **LABELS)


@pytest.mark.parametrize("name", COUNTERS)
def test_a_rate_of(asked, name) -> None:
    assert asked.metric(name, **LABELS) == COUNTERS[name]


def test_where_prompt_tokens_came_from(asked) -> None:
    name = "vllm:prompt_tokens_by_source_total"
    by_source = {
        source: asked.metric(name, **LABELS, source=source) for source in ("local_compute", "local_cache_hit")
    }
    assert by_source == {"local_compute": 12, "local_cache_hit": 8}


@pytest.mark.parametrize("name", GAUGES)
def test_a_level_of(asked, name) -> None:
    assert [value for sample, labels, value in asked.samples() if sample == name and labels == LABELS] == [0]


def test_how_requests_ended(asked) -> None:
    assert asked.metric("vllm:request_success_total", **LABELS, finished_reason="length") == 2
    reasons = {
        labels["finished_reason"]
        for name, labels, _ in asked.samples()
        if name == "vllm:request_success_total"
    }
    assert reasons == {"stop", "length", "abort", "error"}


def test_the_phases_add_up(asked) -> None:
    queue, prefill, decode, inference = (
        asked.metric(f"vllm:request_{phase}_time_seconds_sum")
        for phase in ("queue", "prefill", "decode", "inference")
    )
    assert prefill + decode == pytest.approx(inference)
    assert queue + inference <= asked.metric("vllm:e2e_request_latency_seconds_sum") + 1e-9


def test_what_the_queue_refused_is_counted_by_the_flag_that_bounds_it(start) -> None:
    server = start(max_num_seqs=1, max_num_queued_reqs=0)
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 20}
    server.model.may_step.clear()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(server.post, "/v1/completions", body) for _ in range(4)]
        server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 4)
        server.step_on()
        answers = [each.result().status_code for each in asked]
    assert answers.count(429) == 3
    counted = server.metric("vllm:admission_rejections_total", reason="max_num_queued_reqs")
    assert counted == answers.count(429)
