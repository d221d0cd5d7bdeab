"""A key and a prompt, each with a word that is looked for everywhere: in replies, logs, metrics, records and
the process's own memory of how it was started.
"""

import hashlib
import json
import logging
import random
import re
import secrets
from pathlib import Path

import pytest
from fastapi import APIRouter
from prometheus_client.parser import text_string_to_metric_families

from headrace_engine.server import app as apps
from headrace_engine.server.admin_credentials import AdminCredentials
from headrace_engine.telemetry.logs import JsonLines

KEY, ADMIN_TOKEN, CANARY = "sk-canary-7f3a", "canary-" + secrets.token_urlsafe(40), "canary-prompt"
LONGEST_LINE = 2000
NUM_STRANGERS = 150
MOST_SERIES = 30
"""Of all strangers together: a class of status, and no such route."""


@pytest.fixture(scope="module")
def credentials(tmp_path_factory) -> dict[str, object]:
    directory = tmp_path_factory.mktemp("secrets")
    keys, token = directory / "keys.json", directory / "token"
    keys.write_text(json.dumps({"keys": {hashlib.sha256(KEY.encode()).hexdigest(): "acme"}}))
    token.write_text(ADMIN_TOKEN)
    return {"api_keys": keys, "admin": AdminCredentials(token_file=token)}


def lines_of(caplog) -> list[str]:
    return [JsonLines().format(record) for record in caplog.records if not record.name.startswith("httpcore")]


def records_of(server) -> str:
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    return server.http.get(server.admin_url + "/v1/admin/telemetry", headers=headers).text


def test_keys_and_prompts_are_nowhere_whatever_happens_to_a_request(start, credentials, caplog) -> None:
    """Elsewhere keys stood in a start-up log, in a cache file and in a reply; prompts in logs, in a crash's
    dump and on a page of slots.
    """
    with caplog.at_level(logging.DEBUG):
        server = start(**credentials)
        key = {"authorization": f"Bearer {KEY}"}
        body = {"model": "alphabet", "prompt": CANARY, "max_tokens": 3}
        replies = [
            server.post("/v1/completions", body, headers=key),
            server.post("/v1/completions", body | {"model": "nobody"}, headers=key),
            server.post("/v1/completions", body | {"max_tokens": 10**6}, headers=key),
            server.post("/v1/completions", body, headers={"authorization": f"Bearer {KEY}x"}),
            server.http.get(server.url + "/nowhere", headers=key),
            server.http.get(server.url + "/metrics", headers=key),
            server.http.get(server.admin_url + "/v1/admin/limits", headers={"authorization": ADMIN_TOKEN}),
        ]
        records = records_of(server)
        replies.append(server.post("/v1/completions", body | {"prompt": CANARY + "~"}, headers=key))
        server.terminate()
        assert server.ended() == 1
    assert [reply.status_code for reply in replies] == [200, 404, 400, 401, 404, 200, 401, 500]
    assert "prompt_tokens" in records
    started = [Path(f"/proc/self/{name}").read_text(errors="replace") for name in ("cmdline", "environ")]
    told = [reply.text + str(reply.headers) for reply in replies] + lines_of(caplog) + [records] + started
    assert [text for text in told if re.search(f"{KEY}|{ADMIN_TOKEN}|{CANARY}", text)] == []


def test_records_hold_numbers_and_a_few_known_words(start, credentials) -> None:
    """A page of slots showed the prompts of others."""
    server = start(**credentials)
    key = {"authorization": f"Bearer {KEY}"}
    server.post("/v1/completions", {"model": "alphabet", "prompt": CANARY, "max_tokens": 3}, headers=key)
    document = json.loads(records_of(server))
    values = [value for kind in ("steps", "requests") for record in document[kind] for value in flat(record)]
    assert values
    assert {value for value in values if isinstance(value, str)} <= {"length", "stop", "good", "acme"}


def flat(value):
    if isinstance(value, dict):
        return [leaf for entry in value.values() for leaf in flat(entry)]
    return [leaf for entry in value for leaf in flat(entry)] if isinstance(value, list) else [value]


def test_a_fault_of_the_server_is_told_in_constant_words(start, monkeypatch) -> None:
    """CVE-2025-23319 and its kin: an error's text named what led to the next hole."""
    own = apps.openai_routes

    def with_a_fault(service) -> APIRouter:
        router = own(service)

        async def fail() -> None:
            raise RuntimeError("shared memory region /triton_python_backend_shm_region_x")

        router.add_api_route("/fault", fail, methods=["GET"])
        return router

    monkeypatch.setattr(apps, "openai_routes", with_a_fault)
    server = start()
    reply = server.http.get(server.url + "/fault", headers={"x-request-id": "mine-1"})
    assert reply.status_code == 500
    assert reply.json()["error"]["message"] == "The server failed on this request (mine-1)."
    assert reply.headers["x-request-id"] == "mine-1"


def test_no_stranger_adds_a_series(start, credentials) -> None:
    """CVE-2022-21698 and others: each method, path, model and user became a label, until memory ended."""
    server = start(**credentials)
    key = {"authorization": f"Bearer {KEY}"}
    server.post("/v1/completions", {"model": "alphabet", "prompt": "a", "max_tokens": 2}, headers=key)
    before = len(server.samples())
    for number in range(NUM_STRANGERS):
        body = {"model": f"m{number}", "prompt": "a", "user": f"u{number}", "safety_identifier": f"s{number}"}
        headers = {"x-request-id": f"id{number}", "x-tenant": f"t{number}", "user-agent": f"a{number}"}
        server.http.request(
            f"M{number}", f"{server.url}/p{number}?q={number}", json=body, headers=key | headers
        )
        server.post("/v1/completions", body, headers=key | headers)
    assert len(server.samples()) <= before + MOST_SERIES


HOSTILE = '\r\n\x1b[31m\x9b2J\u2028\x00"level":"forged'


def test_no_request_forges_a_line_of_the_log(server, caplog) -> None:
    """CVE-2020-7694: a line break in a path ended the line that it was logged in."""
    encoded = "".join(f"%{byte:02x}" for byte in HOSTILE.encode())
    raw = HOSTILE.replace("\r\n", " ").replace("\x00", "").replace("\u2028", "").encode("latin-1")
    with caplog.at_level(logging.DEBUG):
        requests = [
            f"GET /{encoded}?{encoded} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(),
            *(
                b"GET /v1/models/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b: %b\r\n\r\n" % (name, raw)
                for name in (b"x-request-id", b"authorization", b"user-agent", b"traceparent", b"origin")
            ),
            b"GET\x1b[31m /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        ]
        for request in requests:
            server.raw(request)
        server.eventually(lambda: len([r for r in caplog.records if r.msg == "request"]) >= 2)
    lines = lines_of(caplog)
    assert all(line.isascii() and line.isprintable() and len(line) < LONGEST_LINE for line in lines)
    assert {json.loads(line)["level"] for line in lines} <= {"debug", "info", "warning"}


def test_labels_are_read_back_as_they_were_meant(start) -> None:
    """CVE-2026-40179: a label became a page's script. Names are of letters that need no escape anywhere."""
    server = start(served_model_names=("org/model-1.5:tag@main+x",))
    families = text_string_to_metric_families(server.http.get(server.url + "/metrics").text)
    names = {sample.labels.get("model_name") for family in families for sample in family.samples}
    assert names <= {"org/model-1.5:tag@main+x", None}


def test_ids_of_requests_are_plain_or_replaced(server) -> None:
    chance = random.Random(57)
    for text in ("a" * 65, "a b", "<b>", "é", "", *(chr(chance.randrange(33, 127)) * 3 for _ in range(20))):
        headers = {"x-request-id": text.encode("latin-1")}
        told = server.http.get(server.url + "/v1/models", headers=headers).headers["x-request-id"]
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", told)
        assert (told == text) == bool(re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text))
