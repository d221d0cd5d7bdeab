"""A server that ends while a client still sends its request tells it so, and blames nobody."""

import json
import logging

from headrace_engine.server import http_server

BODY = b'{"model": "alphabet", "prompt": "a", "max_tokens": 1}'
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d"


def test_a_request_that_is_cut_off_half_sent_is_told_to_go_elsewhere(start, monkeypatch, caplog) -> None:
    monkeypatch.setattr(http_server, "FLUSH_TIMEOUT_S", 0.05)
    server = start()
    with server.connect() as connection:
        connection.sendall(HEAD % len(BODY) + b"\r\n\r\n" + BODY[:-1])
        server.eventually(lambda: server.process.service.bodies.num_bytes == len(BODY) - 1)
        server.terminate()
        head, _, body = server.read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in head + b"\r\n"
    assert json.loads(body)["error"]["code"] == "shutting_down"
    assert server.ended() == 0
    assert [line for line in caplog.records if line.exc_info and line.levelno >= logging.ERROR] == []
