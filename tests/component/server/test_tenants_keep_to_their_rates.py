"""Requests and tokens a minute, by tenant: what is refused, when it will do, and what clients are told."""

import asyncio
import hashlib
import json
import time

import httpx
import openai
import pytest

REQUESTS, TOKENS = {"requests_per_minute": 3}, {"tokens_per_minute": 1000}
TERMS = {
    "slow": REQUESTS,
    "slower": REQUESTS,
    "small": TOKENS,
    "smaller": TOKENS,
    "refused": TOKENS,
    "hasty": {"tokens_per_minute": 2_000_000},
}
BODY = {"model": "alphabet", "prompt": "xy", "max_tokens": 700}
"""Ends after `z`: 2 tokens of output."""


@pytest.fixture(scope="module")
def server(run_server, tmp_path_factory):
    """The key of each tenant is its name."""
    digests = {hashlib.sha256(tenant.encode()).hexdigest(): tenant for tenant in (*TERMS, "free")}
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(json.dumps({"keys": digests, "tenants": {"items": TERMS}}))
    return run_server(api_keys=keys, max_model_len=2048, num_blocks=512)


def ask(server, tenant, **body) -> httpx.Response:
    return server.post("/v1/completions", BODY | body, headers={"authorization": f"Bearer {tenant}"})


def test_requests_beyond_the_rate_are_refused_by_name_until_they_will_do(server) -> None:
    answers = [ask(server, "slow", n=2) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429], "two outputs are one request"
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in answers] == ["2", "1", "0", "0"]
    refused = answers[-1]
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "tenant_requests_per_minute")
    assert refused.headers["x-headrace-reason"] == "tenant_requests_per_minute"
    assert 0 < int(refused.headers["retry-after-ms"]) <= 20_000
    assert 0 < int(refused.headers["retry-after"]) <= 20
    assert refused.headers["x-ratelimit-limit-requests"] == "3"
    assert refused.headers["x-ratelimit-reset-requests"].endswith("s")
    assert ask(server, "free").status_code == 200
    counted = server.metric("headrace_request_rejections_total", reason="tenant_requests_per_minute")
    assert counted == 2, "as all counts, by output"


def test_more_than_a_minutes_worth_is_served_once_and_paid_for_afterwards(server) -> None:
    body = BODY | {"prompt": "a", "max_tokens": 1200, "ignore_eos": True, "stream": True}
    headers = {"authorization": "Bearer small"}
    with server.http.stream("POST", server.url + "/v1/completions", json=body, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["x-ratelimit-remaining-tokens"] == "0"
        refused = ask(server, "small", max_tokens=998)
    assert refused.headers["x-headrace-reason"] == "tenant_tokens_per_minute"
    assert 0 < int(refused.headers["retry-after-ms"]) <= 73_000


def test_tokens_are_settled_to_what_was_generated(server) -> None:
    answers = [ask(server, "smaller") for _ in range(4)]
    assert [answer.json()["usage"]["total_tokens"] for answer in answers] == [4] * 4
    assert 984 <= int(answers[-1].headers["x-ratelimit-remaining-tokens"]) <= 1000


def test_what_is_refused_or_leaves_takes_no_tokens(server) -> None:
    assert ask(server, "refused", prompt="x" * 2048, max_tokens=1).status_code == 400
    left = ask(server, "refused", max_tokens=1)
    assert 997 <= int(left.headers["x-ratelimit-remaining-tokens"]) <= 1000


def test_openais_client_reads_them(server) -> None:
    with openai.OpenAI(base_url=server.url + "/v1", api_key="slower", max_retries=0) as client:
        raw = client.completions.with_raw_response.create(**BODY)
        assert raw.headers["x-ratelimit-limit-requests"] == "3"
        assert raw.parse().usage.total_tokens == 4
        for _ in range(2):
            client.completions.create(**BODY)
        with pytest.raises(openai.RateLimitError) as refused:
            client.completions.create(**BODY)
    assert refused.value.code == "tenant_requests_per_minute"


def test_a_tenant_without_rates_is_told_of_none(server) -> None:
    assert not [name for name in ask(server, "free").headers if name.startswith("x-ratelimit")]


def test_a_rate_that_becomes_lower_does_not_reach_back(server) -> None:
    """What was taken has flowed back by then."""
    assert ask(server, "hasty", prompt="a" * 1500, max_tokens=1).status_code == 200
    time.sleep(60 * 1501 / 2_000_000)
    limits = server.process.service.serving().limits
    changes = {"tenants": {"items": {"hasty": {"tokens_per_minute": 5000}}}}
    server.on_loop(lambda: asyncio.ensure_future(limits.change(changes, "*")))
    server.eventually(lambda: limits.rules.contract.of("hasty").tokens_per_minute == 5000)
    left = ask(server, "hasty", prompt="x", max_tokens=1)
    assert 4998 <= int(left.headers["x-ratelimit-remaining-tokens"]) <= 5000
