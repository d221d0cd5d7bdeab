"""Limits by signed call or token file; whoever is not authorized learns nothing and changes nothing."""

import base64
import hashlib
import json
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headrace_engine.server.admin_credentials import AdminCredentials

POD = "0b9c6f0e-pod"
LIMITS = "/v1/admin/limits"
TOKEN = secrets.token_urlsafe(32)


def key_id(key: Ed25519PrivateKey) -> str:
    return hashlib.sha256(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


@dataclass
class Caller:
    """Signs as an operator would; `change` spoils a call, and times in it are from now."""

    url: str
    key: Ed25519PrivateKey
    http: httpx.Client

    def token(self, method: str, path: str, body: bytes, **change: Any) -> str:
        now = int(time.time())
        claims = {
            "aud": POD,
            "iat": now,
            "exp": now + 30,
            "jti": secrets.token_hex(16),
            "htm": method,
            "htu": path,
            "bh": base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode(),
        }
        key = change.pop("key", self.key)
        kid = change.pop("kid", key_id(key))
        for name, value in change.items():
            claims[name] = now + int(value.total_seconds()) if isinstance(value, timedelta) else value
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, key, algorithm="EdDSA", headers={"kid": kid})

    def call(
        self,
        method: str,
        path: str,
        document: Any = None,
        headers: dict[str, str] | None = None,
        **change: Any,
    ) -> httpx.Response:
        body = b"" if document is None else json.dumps(document).encode()
        signed = {"authorization": f"Bearer {self.token(method, path, body, **change)}"}
        return self.http.request(method, self.url + path, content=body, headers=signed | (headers or {}))

    def patch(self, changes: dict[str, Any], revision: int) -> httpx.Response:
        return self.call("PATCH", LIMITS, changes, {"if-match": f'"{revision}"'})


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def credentials(key: Ed25519PrivateKey, tmp_path_factory: pytest.TempPathFactory) -> AdminCredentials:
    tmp_path = tmp_path_factory.mktemp("admin")
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    keys, token = tmp_path / "keys.json", tmp_path / "token"
    keys.write_text(json.dumps({"keys": [{"kid": key_id(key), "pem": pem}]}))
    token.write_text(TOKEN + "\n")
    return AdminCredentials(keys, token, POD)


@pytest.fixture(scope="module")
def engine(run_server, credentials) -> Any:
    """Its limits are never changed."""
    return run_server(admin=credentials)


@pytest.fixture
def caller(engine, key) -> Caller:
    return Caller(engine.admin_url, key, engine.http)


@pytest.fixture
def own_engine(start, credentials) -> Any:
    return start(admin=credentials, step_s=0.002)


@pytest.fixture
def own_caller(own_engine, key) -> Caller:
    return Caller(own_engine.admin_url, key, own_engine.http)


def test_limits_are_shown_with_revision_and_capacity(caller) -> None:
    response = caller.call("GET", LIMITS)
    assert response.headers["etag"] == '"1"'
    document = response.json()
    assert document["revision"] == 1
    assert (
        document["limits"].items()
        >= {
            "max_num_seqs": 8,
            "max_num_batched_tokens": 64,
            "long_prefill_token_threshold": 0,
            "max_num_queued_reqs": 1024,
            "max_num_queued_tokens": 1_048_576,
        }.items()
    )
    assert document["capacity"]["max_model_len"] == 256
    assert document["effective"] == {"num_running": 0, "converged": True}
    assert document["since"].endswith("Z")


def test_a_change_is_shown_everywhere_and_counts_the_revision(own_engine, own_caller) -> None:
    changed = own_caller.patch({"max_num_seqs": 2, "max_num_queued_reqs": 7}, 1)
    assert (changed.status_code, changed.json()["revision"], changed.headers["etag"]) == (200, 2, '"2"')
    assert own_caller.call("GET", LIMITS).json()["limits"]["max_num_seqs"] == 2
    assert own_engine.metric("headrace_limit", name="max_num_seqs") == 2
    assert own_engine.metric("headrace_limit", name="max_num_queued_reqs") == 7
    assert own_engine.metric("headrace_limits_revision") == 2
    assert own_engine.metric("headrace_capacity", name="max_num_seqs") == 8


def test_a_change_to_what_already_holds_is_no_new_revision(caller) -> None:
    assert caller.patch({"max_num_seqs": 8}, 1).json()["revision"] == 1


def test_two_writers_cannot_undo_each_other_unseen(own_caller) -> None:
    assert own_caller.call("PATCH", LIMITS, {"max_num_seqs": 4}).status_code == 428
    assert own_caller.patch({"max_num_seqs": 4}, 1).status_code == 200
    stale = own_caller.patch({"max_num_seqs": 6}, 1)
    assert (stale.status_code, stale.headers["etag"]) == (412, '"2"')
    assert stale.json()["limits"]["max_num_seqs"] == 4


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"max_num_seqs": 9}, "max_num_seqs"),
        ({"max_num_seqs": True}, "max_num_seqs"),
        ({"max_num_seqs": "4"}, "max_num_seqs"),
        ({"max_num_seqs": 4, "max_num_batched_tokens": 65}, "max_num_batched_tokens"),
        ({"max_model_len": 10}, "max_model_len"),
    ],
)
def test_a_bad_change_changes_nothing(caller, changes, param) -> None:
    refused = caller.patch(changes, 1)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert caller.call("GET", LIMITS).json()["revision"] == 1


def test_lowered_limits_hold_within_two_steps_and_end_nothing(own_engine, own_caller) -> None:
    def batch() -> httpx.Response:
        body = {"model": "alphabet", "prompt": ["a"] * 8, "max_tokens": 100, "ignore_eos": True}
        return own_engine.post("/v1/completions", body)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        own_engine.model.step_s = 0.1
        first = pool.submit(batch)
        own_engine.eventually(lambda: len(own_engine.model.plans) > 2)
        document = own_caller.patch({"max_num_seqs": 2, "max_num_batched_tokens": 3}, 1).json()
        steps = len(own_engine.model.plans)
        assert document["effective"]["converged"] is False
        second = pool.submit(batch)
        own_engine.model.step_s = 0.0
        assert {len(choice["text"]) for choice in first.result().json()["choices"]} == {97}
        assert second.result().status_code == 200
    assert all(plan.num_tokens <= 3 for plan in own_engine.model.plans[steps + 2 :])
    assert own_caller.call("GET", LIMITS).json()["effective"]["converged"] is True


SPOILED = [
    {"aud": "another-pod"},
    {"aud": None},
    {"exp": timedelta(seconds=-60), "iat": timedelta(seconds=-90)},
    {"exp": timedelta(hours=1)},
    {"iat": timedelta(seconds=600), "exp": timedelta(seconds=620)},
    {"iat": None},
    {"exp": None},
    {"jti": None},
    {"jti": "short"},
    {"htm": "PATCH"},
    {"htu": "/v1/admin/drain"},
    {"htu": LIMITS + "?x=1"},
    {"bh": "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFA_"},
    {"kid": "0" * 16},
    {"key": Ed25519PrivateKey.generate()},
]


@pytest.mark.parametrize("change", SPOILED, ids=lambda value: str(value)[:40])
def test_a_spoiled_call_is_unauthorized(engine, caller, change) -> None:
    if "key" in change:
        change = change | {"kid": key_id(caller.key)}
    refused = caller.call("GET", LIMITS, **change)
    assert refused.status_code == 401
    assert refused.json()["error"] == {
        "message": "This call is not authorized.",
        "type": "invalid_request_error",
        "param": None,
        "code": "unauthorized",
    }


def test_a_call_cannot_be_said_again(caller) -> None:
    token = caller.token("GET", LIMITS, b"")
    headers = {"authorization": f"Bearer {token}"}
    answers = [caller.http.get(caller.url + LIMITS, headers=headers).status_code for _ in range(2)]
    assert answers == [200, 401]


def test_the_body_is_signed(caller) -> None:
    token = caller.token("PATCH", LIMITS, b'{"max_num_seqs": 4}')
    headers = {"authorization": f"Bearer {token}", "if-match": '"1"'}
    swapped = caller.http.patch(caller.url + LIMITS, content=b'{"max_num_seqs": 1}', headers=headers)
    assert swapped.status_code == 401


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_no_other_algorithm_is_taken(caller, key, algorithm) -> None:
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    claims = jwt.decode(caller.token("GET", LIMITS, b""), options={"verify_signature": False})
    forged = jwt.encode(
        claims, public if algorithm == "HS256" else None, algorithm=algorithm, headers={"kid": key_id(key)}
    )
    response = caller.http.get(caller.url + LIMITS, headers={"authorization": f"Bearer {forged}"})
    assert response.status_code == 401


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://localhost"}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-mode": "cors"}],
)
def test_no_browser_is_let_in(caller, headers) -> None:
    assert caller.call("GET", LIMITS, headers=headers).status_code == 401
    answer = caller.http.get(caller.url + LIMITS, headers=headers | {"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 401


def test_the_token_file_is_another_way_in(caller) -> None:
    for token, status in ((TOKEN, 200), (TOKEN[:-1], 401), ("x", 401), ("x" * 30_000, 401)):
        response = caller.http.get(caller.url + LIMITS, headers={"authorization": f"Bearer {token}"})
        assert response.status_code == status


def test_the_token_is_rotated_without_a_restart(caller, credentials) -> None:
    renewed = secrets.token_urlsafe(32)
    credentials.token_file.write_text(renewed)
    for token, status in ((TOKEN, 401), (renewed, 200)):
        response = caller.http.get(caller.url + LIMITS, headers={"authorization": f"Bearer {token}"})
        assert response.status_code == status
    credentials.token_file.write_text(TOKEN)


def test_the_doors_are_apart(engine, caller) -> None:
    assert engine.http.get(engine.url + LIMITS).status_code == 404
    assert caller.http.get(caller.url + "/v1/models").status_code == 404
    assert caller.http.get(caller.url + LIMITS).status_code == 401


def test_a_body_over_256_kib_is_not_read(caller) -> None:
    assert caller.call("PATCH", LIMITS, {"x": "y" * 270_000}, {"if-match": '"1"'}).status_code == 413


def test_what_changes_something_leaves_an_audit_line_without_its_token(own_caller, caplog) -> None:
    with caplog.at_level("INFO"):
        own_caller.patch({"max_num_seqs": 4}, 1)
        own_caller.http.get(own_caller.url + LIMITS, headers={"authorization": f"Bearer {TOKEN}"})
        own_caller.call("GET", "/v1/admin/telemetry")
    records = [record for record in caplog.records if record.name == "headrace.audit"]
    lines = [vars(record) for record in records if record.msg == "admin call"]
    assert [(line["caller"], line["method"]) for line in lines] == [
        (f"key-{key_id(own_caller.key)}", "PATCH")
    ]
    assert "/v1/admin/telemetry" not in [vars(record).get("path") for record in caplog.records]
    assert lines[0]["change"] == {"max_num_seqs": 4}
    effective = next(vars(record) for record in records if record.msg == "limits effective")
    assert (effective["revision"], effective["limits"]["max_num_seqs"]) == (2, 4)
    assert effective["since"].endswith("Z")
    assert TOKEN not in caplog.text


def test_the_policy_and_the_terms_of_tenants_change_like_a_limit(own_caller, own_engine) -> None:
    changes = {
        "scheduling_policy": "fair",
        "max_num_seqs": 4,
        "tenants": {"default": {"weight": 2}, "items": {"acme": {"weight": 3, "max_num_queued_reqs": 5}}},
    }
    assert own_caller.patch(changes, 1).status_code == 200
    document = own_caller.call("GET", LIMITS).json()
    assert (document["revision"], document["scheduling_policy"]) == (2, "fair")
    assert document["tenants"]["default"]["weight"] == 2
    assert document["tenants"]["items"]["acme"]["max_num_queued_reqs"] == 5
    assert own_engine.metric("headrace_scheduling_policy", policy="fair") == 1
    assert own_engine.metric("headrace_scheduling_policy", policy="fcfs") == 0


def test_a_rate_holds_from_the_call_on(own_caller, own_engine) -> None:
    def ask() -> tuple[int, str | None]:
        answer = own_engine.post("/v1/completions", {"model": "alphabet", "prompt": "z", "max_tokens": 1})
        return answer.status_code, answer.headers.get("x-ratelimit-limit-requests")

    assert ask() == (200, None)
    rated = {"tenants": {"default": {"requests_per_minute": 4}, "replicas": 2}}
    assert own_caller.patch(rated, 1).status_code == 200
    assert [ask() for _ in range(3)] == [(200, "2"), (200, "2"), (429, "2")]
    assert own_caller.patch({"tenants": {"replicas": 1}}, 2).status_code == 200
    assert ask() == (429, "4"), "who had taken all of half a rate has taken all of it"
    assert own_caller.patch({"tenants": {"default": {"requests_per_minute": 5}}}, 3).status_code == 200
    assert [ask() for _ in range(2)] == [(200, "5"), (429, "5")]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"scheduling_policy": "lottery"}, "scheduling_policy"),
        ({"tenants": {"items": {"acme": {"weight": 0}}}}, "tenants.items.acme.weight"),
        ({"tenants": {"items": {"acme": {"max_num_seqs": 0}}}}, "tenants.items.acme.max_num_seqs"),
        ({"tenants": {"items": {"acme": {"max_num_seqs": True}}}}, "tenants.items.acme.max_num_seqs"),
        ({"tenants": {"items": {"acme": {"wait": 1}}}}, "tenants.items.acme.wait"),
        ({"tenants": {"default": {"requests_per_minute": 0}}}, "tenants.default.requests_per_minute"),
        (
            {"tenants": {"items": {"a": {"min_share": 0.9}, "b": {"min_share": 0.2}}}},
            "tenants.items.min_share",
        ),
        ({"tenants": {"replicas": 0}}, "tenants.replicas"),
        ({"tenants": {"items": []}}, "tenants"),
        ({"tenants": {"all": {}}}, "tenants.all"),
    ],
)
def test_one_bad_rule_changes_none(own_caller, change, param) -> None:
    refused = own_caller.patch({"max_num_seqs": 1} | change, 1)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == param
    assert own_caller.call("GET", LIMITS).json()["revision"] == 1


def test_records_are_read_by_a_call_whose_query_is_signed_too(caller) -> None:
    path = "/v1/admin/telemetry?limit=5"
    assert caller.call("GET", path).json()["lost"] == {"steps": 0, "requests": 0}
    assert caller.call("GET", path, htu="/v1/admin/telemetry?limit=6").status_code == 401
    assert caller.call("GET", path, htu="/v1/admin/telemetry").status_code == 401
