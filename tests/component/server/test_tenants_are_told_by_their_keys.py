"""An API key names a tenant: its limits, its share, its cached blocks. Nothing else in a request does."""

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace_engine.core.policies import PolicyName
from headrace_engine.server.api_keys import MAX_FAILURES_PER_S, ApiKeys, Tenancy
from headrace_engine.server.errors import ApiError

BODY = {"model": "alphabet", "prompt": "a" * 12, "max_tokens": 2}
HEAD = (
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n"
)


def write_keys(path: Path, tenants: dict[str, str], terms: dict[str, Any] | None = None) -> Path:
    digests = {hashlib.sha256(key.encode()).hexdigest(): tenant for key, tenant in tenants.items()}
    path.write_text(json.dumps({"keys": digests, "tenants": {"items": terms or {}}}))
    stamp = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(stamp, stamp))
    return path


def bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


def ask(server, key: str | None, **body: Any) -> httpx.Response:
    return server.post("/v1/completions", BODY | body, headers=bearer(key))


@contextmanager
def streaming(server, key: str | None = None, *, max_tokens: int) -> Iterator[None]:
    """While somebody's answer comes; its first token is there."""
    body = BODY | {"max_tokens": max_tokens, "ignore_eos": True, "stream": True}
    url = server.url + "/v1/completions"
    with server.http.stream("POST", url, json=body, headers=bearer(key)) as answer:
        lines = answer.iter_lines()  # kept: the stream ends with it
        assert next(lines)
        yield


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return write_keys(tmp_path / "keys.json", {"sk-a": "acme", "sk-b": "bolt"})


@pytest.fixture(scope="module")
def priority_server(run_server):
    return run_server(scheduling_policy=PolicyName.PRIORITY)


@pytest.mark.parametrize("key", [None, "sk-wrong", "sk-a sk-a", "SK-A"])
def test_without_a_valid_key_nothing_is_served(start, keys, key) -> None:
    server = start(api_keys=keys)
    refused = ask(server, key)
    assert refused.status_code == 401
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert server.http.get(server.url + "/v1/models").status_code == 401
    assert server.model.plans == []


def test_probes_and_metrics_stay_open(start, keys) -> None:
    server = start(api_keys=keys)
    for path in ("/livez", "/readyz", "/health", "/metrics"):
        assert server.http.get(server.url + path).status_code == 200


def test_cached_blocks_are_shared_within_a_tenant_alone(start, keys) -> None:
    server = start(api_keys=keys)

    def cached_tokens(key: str) -> int:
        usage = ask(server, key, user="acme").json()["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    assert cached_tokens("sk-a") == 0
    assert cached_tokens("sk-b") == 0
    assert cached_tokens("sk-a") > 0


def test_a_tenant_that_fills_its_queue_leaves_it_to_the_others(start, tmp_path) -> None:
    terms = {"acme": {"max_num_queued_reqs": 0, "max_num_seqs": 1}}
    keys = write_keys(tmp_path / "keys.json", {"sk-a": "acme", "sk-b": "bolt"}, terms)
    server = start(api_keys=keys, step_s=0.02, max_model_len=4096, num_blocks=1024)
    with streaming(server, "sk-a", max_tokens=4000):
        refused, other = ask(server, "sk-a"), ask(server, "sk-b")
    assert refused.status_code == 429
    assert refused.headers["x-headrace-reason"] == "tenant_queue_full_requests"
    assert int(refused.headers["retry-after"]) >= 1
    assert other.status_code == 200
    assert server.metric("headrace_request_rejections_total", reason="tenant_queue_full_requests") == 1


def test_a_changed_file_holds_at_once_and_a_broken_one_never(start, keys) -> None:
    server = start(api_keys=keys)
    assert ask(server, "sk-a").status_code == 200
    write_keys(keys, {"sk-new": "acme"}, {"acme": {"weight": 4}})
    assert ask(server, "sk-a").status_code == 401
    assert ask(server, "sk-new").status_code == 200
    assert server.metric("headrace_limits_revision") == 2
    keys.write_text("{")
    assert ask(server, "sk-new").status_code == 200


def test_guessing_keys_is_slowed_down(keys) -> None:
    api_keys = ApiKeys(keys, clock=lambda: 7.0)

    def guess(address: str) -> int:
        with pytest.raises(ApiError) as refused:
            api_keys.tenant("Bearer sk-guess", address)
        return refused.value.status

    assert [guess("1.2.3.4") for _ in range(MAX_FAILURES_PER_S + 1)] == [401] * MAX_FAILURES_PER_S + [429]
    assert guess("5.6.7.8") == 401
    assert api_keys.tenant("Bearer sk-a", "1.2.3.4") == "acme"


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"keys": {"sk-a": "acme"}},
        {"keys": {"0" * 64: ""}},
        {"keys": {"0" * 64: 7}},
        {"keys": {}, "tenants": {"items": {"acme": {"weight": -1}}}},
        {"keys": {}, "more": 1},
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path, document) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"."):
        Tenancy.read(path)


class TestDeadlinesAndClasses:
    def test_a_client_shortens_its_time_in_the_queue(self, start) -> None:
        server = start(max_num_seqs=1, step_s=0.1)
        with streaming(server, max_tokens=200):
            headers = {"x-headrace-queue-deadline-ms": "30"}
            late = server.post("/v1/completions", BODY, headers=headers)
        assert late.status_code == 429
        assert late.headers["x-headrace-reason"] == "queue_deadline"

    def test_a_tenants_own_time_in_the_queue_holds_where_a_client_names_none(self, start, tmp_path) -> None:
        keys = write_keys(
            tmp_path / "keys.json", {"sk-a": "acme", "sk-b": "bolt"}, {"acme": {"queue_deadline_ms": 30}}
        )
        server = start(max_num_seqs=1, step_s=0.01, api_keys=keys)
        with streaming(server, "sk-b", max_tokens=200):
            late = ask(server, "sk-a")
        assert late.headers["x-headrace-reason"] == "queue_deadline"
        assert ask(server, "sk-b").status_code == 200

    @pytest.mark.parametrize("name", ["x-headrace-queue-deadline-ms", "x-slo-ttft-ms", "x-llm-d-slo-ttft-ms"])
    @pytest.mark.parametrize(
        "value", ["0", "-1", "nan", "inf", "soon", "1e99", "1_000", "5" + " " * 40 + "x", "9" * 400]
    )
    def test_what_is_no_time_is_refused_by_name(self, start, name, value) -> None:
        refused = start().post("/v1/completions", BODY, headers={name: value})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == name

    def test_of_two_times_neither_is_chosen(self, start) -> None:
        headers = [("x-slo-ttft-ms", "50"), ("x-slo-ttft-ms", "5000")]
        assert start().post("/v1/completions", BODY, headers=headers).status_code == 400

    def test_priority_is_honored_or_refused(self, start) -> None:
        refused = start().post("/v1/completions", BODY | {"priority": 1})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "priority"
        assert start().post("/v1/completions", BODY | {"priority": 0}).status_code == 200
        classes = start(scheduling_policy=PolicyName.PRIORITY)
        assert classes.post("/v1/completions", BODY | {"priority": 1}).status_code == 200

    @pytest.mark.parametrize("priority", [-1, -21, 20, 2**31 - 1, 1 - 2**31])
    def test_a_class_that_does_not_exist_or_is_not_ones_own_is_refused_by_name(
        self, priority_server, priority
    ) -> None:
        refused = priority_server.post("/v1/completions", BODY | {"priority": priority})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "priority"
        assert "0 to 19" in refused.json()["error"]["message"]

    def test_who_may_go_first_is_the_tenants_terms_not_the_clients_word(self, start, tmp_path) -> None:
        terms = {"acme": {"priority": -5, "best_priority": -10}, "bolt": {"priority": 5}}
        keys = write_keys(tmp_path / "keys.json", {"sk-a": "acme", "sk-b": "bolt"}, terms)
        server = start(api_keys=keys, scheduling_policy=PolicyName.PRIORITY)
        taken = {key: [ask(server, key).status_code] for key in ("sk-a", "sk-b")}
        for key, statuses in taken.items():
            statuses += [ask(server, key, priority=priority).status_code for priority in (-11, -10, 4, 5)]
        assert taken == {"sk-a": [200, 400, 200, 200, 200], "sk-b": [200, 400, 400, 400, 200]}

    def test_a_class_that_no_policy_heeds_and_that_asks_for_nothing_is_taken_of_everybody(
        self, start, tmp_path
    ) -> None:
        keys = write_keys(tmp_path / "keys.json", {"sk-b": "bolt"}, {"bolt": {"priority": 5}})
        assert ask(start(api_keys=keys), "sk-b", priority=0).status_code == 200

    def test_who_names_no_class_is_not_refused_for_one_that_it_had_when_it_began_to_send(self, start) -> None:
        server = start(scheduling_policy=PolicyName.PRIORITY)
        limits, body = server.process.service.serving().limits, json.dumps(BODY).encode()
        changes = {"tenants": {"default": {"priority": 5}}}
        with server.connect() as connection:
            connection.sendall(HEAD % len(body) + body[:-1])
            server.eventually(lambda: server.process.service.bodies.num_bytes == len(body) - 1)
            server.on_loop(lambda: asyncio.ensure_future(limits.change(changes, "*")))
            server.eventually(lambda: limits.revision == 2)
            connection.sendall(body[-1:])
            assert server.read_all(connection).startswith(b"HTTP/1.1 200 ")

    def test_a_wanted_first_token_orders_the_queue(self, start) -> None:
        server = start(scheduling_policy=PolicyName.DEADLINE)
        headers = {"x-slo-ttft-ms": "5000"}
        assert server.post("/v1/completions", BODY, headers=headers).status_code == 200


def test_keys_come_and_go_while_it_serves(start, tmp_path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": None}))
    server = start(api_keys=keys)
    assert ask(server, None).status_code == 200
    write_keys(keys, {"sk-a": "acme"})
    assert [ask(server, key).status_code for key in (None, "sk-a")] == [401, 200]
    keys.write_text(json.dumps({"keys": None}))
    assert ask(server, None).status_code == 200
