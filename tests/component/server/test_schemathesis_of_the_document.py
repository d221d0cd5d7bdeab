"""`/openapi.json` says what the server does: schemathesis makes requests of it, that fit and that do not, and
holds every answer against it. A real model computes what is accepted.

Each bound is tried from both sides; `HEADRACE_FUZZ_REQUESTS` is about how many more are made by chance.
"""

import hashlib
import json
import os
from collections import Counter

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.generation import GenerationMode

from headrace_engine.server.claim import QUEUE_DEADLINE
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.loading import load_model
from headrace_engine.server.openapi import document
from headrace_engine.server.openapi_requests import Reach

NUM_BY_CHANCE = int(os.environ.get("HEADRACE_FUZZ_REQUESTS", "200"))
REACH = Reach(("alphabet",), max_model_len=32, vocab_size=1024, max_num_seqs=4)
NOT_IN_A_SCHEMA = {
    *("max_tokens", "max_completion_tokens", "min_tokens", "n", "best_of", "messages", "prompt", "priority"),
    *("stop", "stream_options", "stream_options.continuous_usage_stats", "logprobs", "top_logprobs", "echo"),
    *("prompt_logprobs", "logit_bias", "bad_words", "allowed_token_ids", "chat_template_kwargs"),
    *("continue_final_message", "cache_salt"),
}
"""What may be wrong with a body that fits: parameters that do not go together, lengths in tokens, bytes."""

pytestmark = pytest.mark.timeout(600 + NUM_BY_CHANCE // 10)
schema = schemathesis.openapi.from_dict(document(REACH)).exclude(method="HEAD")
schema.config.generation.update(allow_extra_parameters=False, deterministic=True)
schema.config.checks.negative_data_rejection.expected_statuses += ["413", "431"]
schema.config.checks.positive_data_acceptance.enabled = False
by_chance = settings(
    max_examples=max(2, NUM_BY_CHANCE // 5), deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def server(run_server, tiny_model_dir):
    bounds = {"max_model_len": 32, "max_num_seqs": 4, "max_num_batched_tokens": 64}
    config = ServeConfig(
        model=str(tiny_model_dir), threads=1, block_size=16, num_gpu_blocks_override=64, **bounds
    )
    return run_server(load=lambda _alphabet: load_model(config), **bounds)


@pytest.fixture(scope="module")
def session():
    with requests.Session() as session:
        yield session


@pytest.fixture(scope="module")
def outcomes() -> Counter:
    return Counter()


def test_the_served_document_is_the_one_that_requests_are_made_of(server) -> None:
    assert server.http.get(server.url + "/openapi.json").json() == document(REACH)


def test_where_there_are_keys_the_document_asks_for_one(run_server, tmp_path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": {hashlib.sha256(b"a-key").hexdigest(): "acme"}}))
    server = run_server(api_keys=keys)
    statuses = [
        server.http.get(server.url + "/openapi.json", headers={"authorization": f"Bearer {key}"}).status_code
        for key in ("a-key", "another")
    ]
    assert statuses == [200, 401]


def go_together(case: schemathesis.Case) -> None:
    """One name of two for the same, and some patience: else nothing would be answered."""
    if case.body.get("max_tokens") is not None:
        case.body.pop("max_completion_tokens", None)
    case.headers.pop(QUEUE_DEADLINE, None)


@schema.parametrize()
@by_chance
def test_every_answer_is_as_the_document_says(case, server, session, outcomes) -> None:
    fits = case.meta.generation.mode is GenerationMode.POSITIVE
    if fits and isinstance(case.body, dict):
        go_together(case)
    response = case.call(base_url=server.url, session=session, timeout=60)
    case.validate_response(response)
    outcomes[case.path, fits, response.status_code] += 1
    if response.status_code == 400 and case.method == "POST":
        param = response.json()["error"]["param"]
        assert param is not None or not isinstance(case.body, dict)
        if fits and "valid integer" not in response.json()["error"]["message"]:
            assert param.partition("[")[0] in NOT_IN_A_SCHEMA


def test_much_of_what_fits_is_answered_and_nothing_of_it_stays(server, outcomes) -> None:
    answered = {path: outcomes[path, True, 200] for path in ("/v1/chat/completions", "/v1/completions")}
    assert min(answered.values()) >= 50, outcomes
    assert not any(status >= 500 for _, _, status in outcomes)
    server.eventually(lambda: server.metric("headrace_in_flight") == 0)
    assert server.metric("vllm:kv_cache_usage_perc") == 0
