"""Start, drain, exit: what is in flight finishes, what comes late is sent elsewhere, and the exit code says
how it was.
"""

import json
import os
import secrets
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from eventually import eventually
from tests.served_engine import Served, is_running

from headrace_engine.link import outbox
from headrace_engine.server import drain, heartbeat, http_server, loop
from headrace_engine.server.admin_credentials import AdminCredentials
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.loading import load_model

TOKEN = secrets.token_urlsafe(32)
LONG = {"model": "alphabet", "prompt": "a", "max_tokens": 100, "ignore_eos": True}
ENDLESS = {"max_tokens": 8000, "ignore_eos": True}
"""More than is ever read, at `ROOM` for it."""
ROOM = {"max_model_len": 8192, "num_blocks": 4096}


def test_while_the_model_loads_it_is_live_and_not_ready(start) -> None:
    may_load = threading.Event()

    def load(model):
        may_load.wait()
        return model

    server = start(load=load, wait=False)
    assert server.http.get(server.url + "/livez").status_code == 200
    for path in ("/readyz", "/health", "/v1/models", "/metrics"):
        response = server.http.get(server.url + path)
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
    refused = server.post("/v1/completions", LONG)
    assert (refused.status_code, refused.headers["x-headrace-reason"]) == (503, "loading")
    may_load.set()
    server.eventually(lambda: server.http.get(server.url + "/readyz").status_code == 200)
    for path in ("/livez", "/readyz", "/health", "/metrics"):
        assert server.http.get(server.url + path).status_code == 200
        head = server.http.head(server.url + path)
        assert (head.status_code, head.content) == (200, b"")


def test_it_can_be_told_to_leave_while_the_model_loads(start) -> None:
    may_load = threading.Event()
    server = start(load=lambda model: may_load.wait() and model, wait=False)
    server.eventually(lambda: server.process is not None)
    server.terminate()
    assert server.ended() == 0
    may_load.set()


def test_a_model_that_cannot_be_loaded_ends_it_with_the_reason(start, caplog) -> None:
    server = start(load=lambda _model: load_model(ServeConfig(model="no-such-model")), wait=False)
    assert server.ended() == 1
    assert any("headrace models list" in vars(record).get("reason", "") for record in caplog.records)


def test_sigterm_finishes_what_is_in_flight(start) -> None:
    server = start(step_s=0.1)
    stream = server.client().completions.create(
        model="alphabet", prompt="a", max_tokens=240, extra_body={"ignore_eos": True}, stream=True
    )
    chunks = iter(stream)
    next(chunks)
    server.terminate()
    server.eventually(lambda: server.http.get(server.url + "/readyz").status_code == 503)
    late = server.post("/v1/completions", LONG)
    assert (late.status_code, late.headers["x-headrace-reason"]) == (503, "draining")
    assert int(late.headers["retry-after"]) >= 1
    assert late.headers["connection"] == "close"
    assert server.http.get(server.url + "/livez").status_code == 200
    assert server.metric("headrace_draining") == 1
    server.model.step_s = 0.0
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "length"
    assert server.ended() == 0


def test_in_the_grace_it_still_serves_what_is_routed_to_it(start) -> None:
    server = start(drain_grace_s=600, shutdown_timeout_s=1200)
    assert server.http.get(server.url + "/readyz").status_code == 200
    server.terminate()
    server.eventually(lambda: server.http.get(server.url + "/readyz").status_code == 503)
    answer = server.post("/v1/completions", LONG | {"max_tokens": 2})
    assert answer.status_code == 200
    server.terminate()
    assert server.ended() == 0


def test_where_nobody_watches_its_readiness_it_leaves_at_once(start) -> None:
    server = start(drain_grace_s=600, shutdown_timeout_s=1200)
    server.terminate()
    assert server.ended() == 0


def test_sigterm_ends_a_longer_drain_by_its_own_deadline(start, tmp_path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    admin = AdminCredentials(token_file=tmp_path / "token")
    server = start(admin=admin, step_s=0.01, shutdown_timeout_s=0.1, **ROOM)
    answer = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", LONG | ENDLESS)
    server.eventually(lambda: server.metric("headrace_in_flight") == 1)
    call = {"headers": {"authorization": f"Bearer {TOKEN}"}, "json": {"timeout_s": 3600}}
    assert server.http.post(server.admin_url + "/v1/admin/drain", **call).status_code == 202
    server.terminate()
    assert answer.result().headers["x-headrace-reason"] == "shutting_down"
    assert server.ended() == 0


def test_a_slow_reader_hears_the_end_of_its_stream(start) -> None:
    """The engine is done long before; the process waits for the client."""
    server = start(max_model_len=1024, num_blocks=4096, step_s=0.001)
    much = {"prompt": ["a"] * 8, "max_tokens": 300, "stream": True}
    much["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    body = json.dumps(LONG | much).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        server.eventually(lambda: server.metric("headrace_requests_finished_total") == 8)
        server.terminate()
        server.eventually(lambda: server.http.get(server.url + "/readyz").status_code == 503)
        for _ in range(40):
            connection.recv(1024)
        assert not server.process._drain.drained
        assert not server.process.service.serving().engine.all_read
        assert b"data: [DONE]" in server.read_all(connection)[-64:]
    assert server.ended() == 0


def test_a_step_that_hangs_does_not_keep_the_process(start, monkeypatch) -> None:
    monkeypatch.setattr(drain, "LAST_STEP_S", 0.1)
    monkeypatch.setattr(loop, "LAST_STEP_S", 0.1)
    monkeypatch.setattr(http_server, "FLUSH_TIMEOUT_S", 0.1)
    server = start(shutdown_timeout_s=0.1)
    server.model.may_step.clear()
    ThreadPoolExecutor(1).submit(server.post, "/v1/completions", LONG)
    server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 1)
    server.terminate()
    assert server.ended() == 1


def test_a_step_that_never_ends_fails_livez_until_it_does(start, monkeypatch) -> None:
    """Without work it is live for ever; ready it stays, for whoever restarts it decides by `livez` alone."""
    monkeypatch.setattr(heartbeat, "LEAST_STALL_S", 0.1)
    monkeypatch.setattr(heartbeat, "STALL_TOKEN_S", 0.1)
    monkeypatch.setattr(outbox, "PULSE_S", 0.02)
    server = start()
    livez = lambda: server.http.get(server.url + "/livez").status_code  # noqa: E731
    assert livez() == 200
    server.model.may_step.clear()
    answer = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", LONG)
    server.eventually(lambda: livez() == 503)
    assert server.http.get(server.url + "/metrics").status_code == 200
    server.model.may_step.set()
    assert answer.result().status_code == 200
    server.eventually(lambda: livez() == 200)


def test_a_stream_that_is_cut_off_has_all_that_was_generated(start) -> None:
    """Tokens and the end may reach the handler together."""
    server = start(step_s=0.005, **ROOM)
    stream = server.client().completions.create(model="alphabet", prompt="a", extra_body=ENDLESS, stream=True)
    chunks = iter(stream)
    texts = [next(chunks).choices[0].text]
    steps, may_go_on = len(server.model.plans), threading.Event()
    server.on_loop(may_go_on.wait)
    server.eventually(lambda: len(server.model.plans) > steps + 5)
    server.process.service.serving().engine.abort_all()
    time.sleep(0.05)
    may_go_on.set()
    with pytest.raises(openai.APIError, match="shutting down"):
        texts.extend(chunk.choices[0].text for chunk in chunks)
    assert len("".join(texts)) == server.metric("vllm:generation_tokens_total") > 5


@pytest.mark.parametrize("again", [False, True], ids=["deadline", "second signal"])
def test_a_stream_that_outlasts_the_drain_ends_with_a_terminal_event(start, again) -> None:
    server = start(step_s=0.01, shutdown_timeout_s=600 if again else 0.2, **ROOM)
    whole = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", LONG | ENDLESS)
    stream = server.client().completions.create(model="alphabet", prompt="a", extra_body=ENDLESS, stream=True)
    chunks = iter(stream)
    next(chunks)
    server.eventually(lambda: server.metric("headrace_in_flight") == 2)
    server.terminate()
    if again:
        server.terminate()
    with pytest.raises(openai.APIError, match="shutting down"):
        list(chunks)
    assert whole.result().status_code == 503
    assert whole.result().headers["x-headrace-reason"] == "shutting_down"
    assert server.ended() == 0


def test_a_drain_by_the_admin_port_leaves_the_process_running(start, tmp_path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    server = start(admin=AdminCredentials(token_file=tmp_path / "token"), step_s=0.005)
    headers = {"authorization": f"Bearer {TOKEN}"}
    url = server.admin_url + "/v1/admin/drain"
    assert server.http.get(url, headers=headers).json() == {
        "draining": False,
        "in_flight": 0,
        "drained": False,
    }
    for body in ({"timeout_s": -1}, {"timeout_s": "5"}, {"timeout_s": True}, {"timeout": 5}):
        refused = server.http.post(url, headers=headers, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, next(iter(body)))
    server.model.may_step.clear()
    answer = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", LONG)
    server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 1)
    for _ in range(2):
        accepted = server.http.post(url, headers=headers, json={"timeout_s": 300})
        assert accepted.status_code == 202
        assert accepted.json()["draining"] is True
    assert server.http.get(server.url + "/readyz").json() == {"status": "draining"}
    server.model.may_step.set()
    assert answer.result().status_code == 200
    drained = {"draining": True, "in_flight": 0, "drained": True}
    server.eventually(lambda: server.http.get(url, headers=headers).json() == drained)
    assert server.exit_code is None
    assert server.post("/v1/completions", LONG).status_code == 503


def test_a_failed_step_is_told_to_every_client_and_ends_the_process(start, caplog) -> None:
    server = start(step_s=0.01, **ROOM)
    stream = server.client().completions.create(model="alphabet", prompt="a", extra_body=ENDLESS, stream=True)
    chunks = iter(stream)
    next(chunks)
    poisoned = server.post("/v1/completions", LONG | {"prompt": "the secret prompt is ~"})
    assert poisoned.status_code == 500
    assert poisoned.json()["error"]["type"] == "server_error"
    with pytest.raises(openai.APIError, match="restarting"):
        list(chunks)
    assert server.ended() == 1
    assert "secret" not in poisoned.text


def test_what_cannot_be_recorded_is_a_failure_too(start) -> None:
    """Streams hang on the same hop as the metrics: an exception there must not leave them waiting."""
    server = start(step_s=0.01)
    server.process.service.serving().metrics.requests_running.set = lambda _value: 1 / 0
    answer = server.post("/v1/completions", LONG)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert server.ended() == 1


def test_the_command_serves_a_real_model_and_drains_on_sigterm(tiny_model_dir) -> None:
    """To its core too, as a terminal and many a supervisor send it: that one leaves when it is told to."""
    served = Served(tiny_model_dir)
    eventually(lambda: served.told("ready"))
    core, stream = served.core_pid(), iter(served.stream())
    next(stream)
    for pid in (core, served.http.pid):
        os.kill(pid, signal.SIGTERM)
        os.kill(core, signal.SIGINT)
    assert [chunk.choices[0].finish_reason for chunk in stream][-1] == "length"
    assert served.ended() == 0
    assert served.told("exit")["code"] == 0
    assert not is_running(core)
