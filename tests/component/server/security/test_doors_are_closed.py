"""Whoever has no key reaches three probes and the metrics, and nothing that he writes opens more."""

import hashlib
import json
import random
import secrets
from pathlib import Path

import pytest
import starlette
from fastapi import APIRouter

from headrace_engine.server import app as apps
from headrace_engine.server.admin_credentials import AdminCredentials
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.service import Service

KEY, ADMIN_TOKEN = "sk-canary-7f3a", secrets.token_urlsafe(32)
OPEN = {"/livez", "/readyz", "/health", "/metrics"}
BODY = {"model": "alphabet", "prompt": "a", "max_tokens": 2}
NUM_FUZZED = 300


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("secrets")
    keys, token = directory / "keys.json", directory / "token"
    digests = {
        hashlib.sha256(key.encode()).hexdigest(): tenant for key, tenant in ((KEY, "acme"), ("b", "b"))
    }
    keys.write_text(json.dumps({"keys": digests}))
    token.write_text(ADMIN_TOKEN)
    return {"keys": keys, "token": token}


@pytest.fixture(scope="module")
def server(run_server, files):
    patience = pytest.MonkeyPatch()
    patience.setattr("headrace_engine.server.api_keys.MAX_FAILURES_PER_S", 10**6)
    yield run_server(api_keys=files["keys"], admin=AdminCredentials(token_file=files["token"]))
    patience.undo()


def routes(app) -> list[tuple[str, str]]:
    """Every method of every route that an app has."""
    found = []
    pending = list(app._app.routes)
    while pending:
        route = pending.pop()
        if hasattr(route, "original_router"):
            pending += route.original_router.routes
        else:
            path = route.path.replace("{name:path}", "alphabet")
            found += [(method, path) for method in sorted(route.methods)]
    assert len(found) > 3
    return found


def test_every_route_asks_for_a_key_but_probes_and_metrics(server) -> None:
    """Elsewhere `/invocations` was served without the key that `/v1` asked for."""
    answers = {
        (method, path): server.http.request(method, server.url + path).status_code
        for method, path in routes(apps.serving_app(Service(("alphabet",), HttpLimits())))
    }
    assert {path for (_, path), status in answers.items() if status == 200} == OPEN
    assert {status for (_, path), status in answers.items() if path not in OPEN} == {401}


def test_a_route_that_is_added_is_closed(start, files, monkeypatch) -> None:
    """One handler without its decorator was enough to run code elsewhere."""
    own = apps.openai_routes

    def with_one_more(service: Service) -> APIRouter:
        router = own(service)
        router.add_api_route("/v1/forgotten", lambda: "open", methods=["GET", "POST"])
        return router

    monkeypatch.setattr(apps, "openai_routes", with_one_more)
    server = start(api_keys=files["keys"])
    for method in ("GET", "POST"):
        assert server.http.request(method, server.url + "/v1/forgotten").status_code == 401
    with_key = server.http.get(server.url + "/v1/forgotten", headers={"authorization": f"Bearer {KEY}"})
    assert with_key.json() == "open"


@pytest.mark.parametrize("host", ["x/livez?", "x/livez#", "/livez", "livez", "127.0.0.1:1/readyz"])
def test_no_host_header_opens_a_route(server, host) -> None:
    """CVE-2026-48710: a Host header changed the path that the check of keys saw."""
    assert tuple(map(int, starlette.__version__.split(".")[:3])) >= (1, 0, 1)
    answer = server.raw(f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert int(answer.split(b" ")[1]) in (400, 401)


@pytest.mark.parametrize(
    "path", ["//v1/models", "/v1/models/", "/livez/../v1/models", "/v1/%6dodels", "/V1/models"]
)
def test_no_spelling_of_a_path_opens_a_route(server, path) -> None:
    answer = server.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert int(answer.split(b" ")[1]) in (401, 404)


def test_every_broken_key_gets_the_same_answer(server) -> None:
    """CVE-2026-42208, CVE-2026-59822: a key that failed reached the database, or became an empty identity."""
    chance = random.Random(47)
    alphabet = [*range(0x20, 0x7F), *range(0x80, 0x100)]
    wanted = [
        "",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        "Basic " + KEY,
        KEY,
        f"Bearer {KEY} {KEY}",
        f"Bearer {KEY}x",
    ]
    wanted += [f"Bearer {KEY[:-1]}", "Bearer " + KEY.upper(), "Bearer " + "x" * 30_000, "Bearer '; --"]
    wanted += [
        chance.choice(["Bearer ", "bearer ", ""]) + "".join(chr(chance.choice(alphabet)) for _ in range(size))
        for size in (chance.randrange(1, 600) for _ in range(NUM_FUZZED))
    ]
    answers = {
        (answer.status_code, answer.content)
        for text in wanted
        for answer in [
            server.http.get(
                server.url + "/v1/models", headers={"authorization": text.strip().encode("latin-1")}
            )
        ]
    }
    assert [status for status, _ in answers] == [401]


@pytest.mark.parametrize("header", ["origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"])
def test_no_browser_reaches_the_admin_port_by_any_method(server, header) -> None:
    """CVE-2023-48022, CVE-2025-62593, CVE-2026-27482: pages in a browser drove an open job API, by rebinding
    a name, or by the one method that was not checked.
    """
    service = Service(("alphabet",), HttpLimits())
    admin = apps.admin_app(service, None, None, 1.0)
    for method, path in routes(admin):
        headers = {"authorization": f"Bearer {ADMIN_TOKEN}", header: "null"}
        answer = server.http.request(method, server.admin_url + path, headers=headers)
        assert (method, path, answer.status_code) == (method, path, 401)


def test_admin_and_documents_are_behind_the_other_port_or_nowhere(server) -> None:
    with_key = {"authorization": f"Bearer {KEY}"}
    service = Service(("alphabet",), HttpLimits())
    paths = {path for _, path in routes(apps.admin_app(service, None, None, 1.0))}
    for path in (*paths, "/docs", "/redoc", "/server_info", "/invocations", "/v1/internal"):
        assert server.http.get(server.url + path, headers=with_key).status_code == 404
