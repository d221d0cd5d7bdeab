"""A client that leaves, streaming or not, costs at most the step under way; its blocks are free after it."""

import json
import socket
import threading

import httpx
import pytest

LONG = {"model": "alphabet", "prompt": "a", "max_tokens": 8000, "ignore_eos": True}
ROOM = {"max_model_len": 8192, "num_blocks": 8 * 2048}


def request_bytes(body: dict) -> bytes:
    content = json.dumps(body).encode()
    length = f"content-length: {len(content)}"
    lines = ["POST /v1/completions HTTP/1.1", "host: x", "content-type: application/json", length, "", ""]
    return "\r\n".join(lines).encode() + content


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
def test_its_request_is_aborted_within_a_step(start, stream) -> None:
    server = start(step_s=0.01, **ROOM)
    engine = server.process.service.serving().engine
    abort, aborted = engine.abort, threading.Event()
    engine.abort = lambda *told: (abort(*told), aborted.set())
    connection = server.connect()
    connection.sendall(request_bytes(LONG | {"stream": stream}))
    server.eventually(lambda: len(server.model.plans) >= 3)
    server.model.may_step.clear()
    connection.close()
    assert aborted.wait(60)
    steps = len(server.model.plans)
    server.model.step_s = 0.2
    server.model.may_step.set()
    server.eventually(lambda: server.metric("headrace_requests_aborted_total") == 1)
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    assert server.metric("headrace_in_flight") == 0
    assert len(server.model.plans) <= steps + 2, "the step under way, and one that was planned meanwhile"


def test_one_that_leaves_while_it_sends_is_no_fault_of_the_servers(server, caplog) -> None:
    with caplog.at_level("INFO"):
        connection = server.connect()
        connection.sendall(request_bytes(LONG)[:-9])
        connection.close()
        lines = server.eventually(lambda: [vars(r) for r in caplog.records if r.message == "request"])
    assert [line["status"] for line in lines] == [499]
    ours = [record for record in caplog.records if record.name.startswith(("headrace", "uvicorn"))]
    assert {record.levelname for record in ours} == {"INFO"}


def test_one_that_leaves_while_it_waits_is_never_scheduled(start) -> None:
    server = start(max_num_seqs=1, step_s=0.005, **ROOM)
    with httpx.stream("POST", server.url + "/v1/completions", json=LONG | {"stream": True}) as running:
        lines = running.iter_lines()
        next(lines)
        waiting = server.connect()
        waiting.sendall(request_bytes(LONG))
        server.eventually(lambda: server.metric("vllm:num_requests_waiting") == 1)
        waiting.close()
        server.eventually(lambda: server.metric("vllm:num_requests_waiting") == 0)
    assert server.metric("headrace_queue_time_seconds_count") == 1


def test_half_of_many_leave_and_the_others_read_on(start) -> None:
    server = start(step_s=0.002, max_num_seqs=4)
    leavers: list[socket.socket] = []
    for number in range(20):
        connection = server.connect()
        connection.sendall(request_bytes(LONG | {"max_tokens": 200, "stream": number % 2 == 0}))
        leavers.append(connection)
    stayers = [
        server.client().completions.create(model="alphabet", prompt="q", stream=True) for _ in range(3)
    ]
    for connection in leavers:
        connection.close()
    assert ["".join(chunk.choices[0].text for chunk in stream) for stream in stayers] == ["rstuvwxyz"] * 3
    server.eventually(lambda: server.metric("headrace_in_flight") == 0)
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    counts = {
        "received": server.metric("headrace_requests_received_total"),
        "finished": server.metric("headrace_requests_finished_total"),
        "aborted": server.metric("headrace_requests_aborted_total"),
    }
    assert counts["received"] == counts["finished"] + counts["aborted"]


def test_one_that_pipelines_three_cannot_hide_while_the_second_is_answered(start) -> None:
    server = start(step_s=0.01, **ROOM)
    connection = server.connect()
    connection.sendall(request_bytes(LONG | {"max_tokens": 1}) + request_bytes(LONG) * 2)
    server.eventually(lambda: server.metric("headrace_requests_received_total") == 2)
    connection.close()
    server.eventually(lambda: server.metric("headrace_requests_aborted_total") == 1)
    assert server.metric("headrace_requests_received_total") == 2


def test_one_that_pipelines_cannot_hide_that_it_left(start) -> None:
    server = start(step_s=0.01, **ROOM)
    connection = server.connect()
    connection.sendall(request_bytes(LONG) * 2)
    server.eventually(lambda: len(server.model.plans) >= 2)
    connection.sendall(request_bytes(LONG))
    connection.close()
    server.eventually(lambda: server.metric("headrace_requests_aborted_total") == 1)
    assert server.metric("headrace_requests_received_total") == 1
