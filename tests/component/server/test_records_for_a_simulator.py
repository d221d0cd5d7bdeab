"""The admin port gives step and request records to who may call it, and to nobody else."""

import secrets

import pytest

from headrace_engine.server.admin_credentials import AdminCredentials

TOKEN = secrets.token_urlsafe(32)
SECRET = "zebra"


@pytest.fixture
def engine(start, tmp_path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    return start(admin=AdminCredentials(None, token, None), max_num_queued_reqs=2)


def read(engine, query: str = "", token: str = TOKEN):
    url = f"{engine.admin_url}/v1/admin/telemetry{query}"
    return engine.http.get(url, headers={"authorization": f"Bearer {token}"})


def test_every_step_and_every_request_is_there_once(engine) -> None:
    for length in (1, 2, 3):
        engine.post("/v1/completions", {"model": "alphabet", "prompt": SECRET, "max_tokens": length})
    steps, requests, query = [], [], "?limit=2"
    while True:
        document = read(engine, query).json()
        steps += document["steps"]
        requests += document["requests"]
        query = f"?limit=2&since={document['cursor']}"
        if not document["more"]:
            break
    assert [record["output_tokens"] for record in requests] == [1, 2, 3]
    assert all(record["arrival_s"] <= record["first_token_s"] <= record["ended_s"] for record in requests)
    assert sum(step["prefill_tokens"] + step["decode_tokens"] for step in steps) == engine.metric(
        "vllm:iteration_tokens_total_sum"
    )
    assert len(steps) == engine.metric("headrace_step_seconds_count")


def test_row_51_it_shows_no_text(engine) -> None:
    """security: what a client wrote, and what it was answered, is in no record."""
    body = {"model": "alphabet", "messages": [{"role": "user", "content": SECRET}], "user": SECRET}
    answer = engine.post("/v1/chat/completions", body | {"max_tokens": 8}).json()
    text = read(engine).text
    assert SECRET not in text
    assert answer["id"] not in text
    assert answer["choices"][0]["message"]["content"] not in text


@pytest.mark.parametrize("query", ["?limit=0", "?limit=10001", "?limit=-1", "?limit=x", "?limit=%C2%B2"])
def test_a_limit_out_of_bounds_is_refused_by_name(engine, query) -> None:
    response = read(engine, query)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "limit")


@pytest.mark.parametrize(("query", "param"), [("?since=7", "since"), ("?sinse=7", "sinse")])
def test_a_cursor_or_a_name_that_nobody_gave_is_refused_by_name(engine, query, param) -> None:
    response = read(engine, query)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def test_a_stranger_reads_nothing_and_clients_have_no_such_route(engine) -> None:
    assert read(engine, token="stranger").status_code == 401
    assert engine.http.get(f"{engine.url}/v1/admin/telemetry").status_code == 404
