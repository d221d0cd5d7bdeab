"""Raw sockets against the limits: size, count, time, connections, framing. A good client beside them is
served.
"""

import asyncio
import contextlib
import itertools
import select
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Self
from urllib.parse import urlsplit

import pytest

from headrace_engine.server.http_limits import HttpLimits

QUICK = HttpLimits(
    header_timeout_s=0.3, body_timeout_s=0.3, keep_alive_s=0.3, write_stall_s=0.3, linger_s=0.1
)


@pytest.fixture(scope="module")
def server(run_server):
    return run_server(limits=HttpLimits(linger_s=0.1))


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def get(*headers: str, path: str = "/livez") -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "Connection: close", "", ""]).encode()


def post(body: bytes, *headers: str) -> bytes:
    lines = ["POST /v1/completions HTTP/1.1", "Host: x", "Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get(), 200),
        (get(*(f"X-{number}: y" for number in range(70))), 431),
        (get("X-Big: " + "y" * 33_000), 431),
        (get("X-Big: " + "y" * 200_000), 400),
        (get(path="/livez?" + "y" * 2100), 414),
        (get(path="/" + "y" * 2100), 414),
        (get("Host: y"), 400),
        (get("Host: 127.0.0.1/livez?"), 400),
        (b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (b"GET /livez HTTP/9.9\r\nHost: x\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (post(b"0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"), 400),
        (post(b"{}", "Content-Length: 2", "Content-Length: 3"), 400),
        (post(b"zz\r\nhello\r\n", "Transfer-Encoding: chunked", "Connection: close"), 400),
        (post(b"", "Content-Length: 104857600"), 413),
        (post(b"", "Content-Length: 104857600", "Expect: 100-continue"), 413),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_request_out_of_bounds_gets_its_status(server, request_, status) -> None:
    answer = server.raw(request_)
    assert status_of(answer) == status
    if status != 200:
        assert b'{"error":{"message":' in answer
        assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_an_upgrade_is_no_way_around_and_nothing_to_advise_about(server, caplog, protocol) -> None:
    asked = get(f"Upgrade: {protocol}", "Sec-WebSocket-Key: x")
    answer = server.raw(asked.replace(b"Connection: close", b"Connection: upgrade, close"))
    assert status_of(answer) == 200
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


@pytest.mark.parametrize("cuts", [(), (40,), (70, 75, 130)], ids=["at once", "in two", "in four"])
def test_pipelined_requests_are_answered_in_order(server, cuts) -> None:
    def ask(letter: str) -> bytes:
        body = b'{"model":"alphabet","prompt":"%b","max_tokens":40}' % letter.encode()
        return post(body, f"Content-Length: {len(body)}")

    requests = ask("w") + ask("x") + get()
    with server.connect() as connection:
        for start_, end in itertools.pairwise((0, *cuts, len(requests))):
            connection.sendall(requests[start_:end])
            time.sleep(0.01)
        answer = server.read_all(connection)
    assert [part in answer for part in (b'"text":"xyz"', b'"text":"yz"', b'"status":"live"')] == [True] * 3
    assert answer.index(b'"xyz"') < answer.index(b'"yz"') < answer.index(b'"live"')


def test_a_flood_behind_a_request_is_cut_off(start) -> None:
    server = start(step_s=0.01)
    body = b'{"model":"alphabet","prompt":"a","max_tokens":200,"ignore_eos":true}'
    with server.connect() as connection, contextlib.suppress(OSError):
        connection.sendall(post(body, f"Content-Length: {len(body)}"))
        server.eventually(lambda: len(server.model.plans) > 0)
        connection.sendall(b"GET / HTTP/1.1\r\n" * 20_000)
    server.eventually(lambda: server.metric("headrace_requests_aborted_total") == 1)


def test_a_silent_connection_is_closed(start) -> None:
    server = start(limits=QUICK)
    began = time.monotonic()
    assert status_of(server.raw(b"")) == 408
    assert time.monotonic() - began > 0.2


def test_headers_that_drip_are_cut_off(start) -> None:
    server = start(limits=QUICK)
    with server.connect() as connection:
        began = time.monotonic()
        connection.settimeout(0.03)
        answer = b""
        while not answer:
            connection.sendall(b"X")
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(4096)
    assert status_of(answer) == 408
    assert time.monotonic() - began > 0.2


def test_a_body_that_drips_is_cut_off(start) -> None:
    server = start(limits=QUICK)
    answer = server.raw(post(b'{"model"', "Content-Length: 100"))
    assert status_of(answer) == 408
    assert b"body did not arrive in time" in answer


def from_address(server, address: str) -> socket.socket:
    """All of 127.0.0.0/8 is this machine."""
    at = urlsplit(server.url)
    return socket.create_connection((at.hostname, at.port), 60, source_address=(address, 0))


def test_bodies_take_so_much_memory_together_and_one_address_half_of_it(start) -> None:
    server = start(limits=HttpLimits(max_bodies_bytes=100_000, linger_s=0.1))
    bodies = server.process.service.bodies
    most = post(b"x" * 40_000, "Content-Length: 40001")
    with contextlib.ExitStack() as stack:
        of_one, other, third = (stack.enter_context(from_address(server, f"127.0.0.{n}")) for n in (1, 2, 3))
        of_one.sendall(most)
        server.eventually(lambda: bodies.num_bytes == 40_000)
        assert status_of(server.raw(most)) == 503
        assert bodies.num_bytes == 40_000
        other.sendall(most)
        server.eventually(lambda: bodies.num_bytes == 80_000)
        third.sendall(most)
        assert status_of(server.read_all(third)) == 503
        for held in (of_one, other):
            held.sendall(b"x")
            assert status_of(held.recv(4096)) == 400
    assert (bodies.num_bytes, dict(bodies._bytes_of)) == (0, {})


def test_an_idle_connection_is_not_kept_for_ever(start) -> None:
    server = start(limits=QUICK)
    began = time.monotonic()
    answer = server.raw(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status_of(answer) == 200
    assert time.monotonic() - began > 0.2


def test_three_megabytes_in_crumbs_cost_next_to_nothing(start) -> None:
    server = start(max_model_len=32_768, num_blocks=16_384)
    began = time.process_time()
    answer = server.raw(post(b"1\r\na\r\n" * 500_000, "Transfer-Encoding: chunked"))
    assert not answer or status_of(answer) == 400
    assert time.process_time() - began < 2


def test_a_large_body_hears_its_413_before_the_connection_closes(server) -> None:
    body = b"x" * 400_000
    answer = server.raw(post(body, f"Content-Length: {len(body)}"))
    assert status_of(answer) == 413


def test_a_chunked_body_is_counted_as_it_comes(server) -> None:
    answer = server.raw(
        post(
            b"10000\r\n" + b"x" * 65536 + b"\r\n" + b"10000\r\n" + b"x" * 65536 + b"\r\n",
            "Transfer-Encoding: chunked",
        )
    )
    assert status_of(answer) == 413


def test_a_client_that_does_not_read_is_cut_off(start) -> None:
    server = start(limits=QUICK, max_model_len=4096, num_blocks=8192, step_s=0.001)
    prompts = b'["a","a","a","a","a","a","a","a"]'
    body = b'{"model":"alphabet","prompt":%b,"max_tokens":4000,"ignore_eos":true,"stream":true}' % prompts
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = server.url.removeprefix("http://").split(":")
    connection.connect((host, int(port)))
    connection.sendall(post(body, f"Content-Length: {len(body)}"))
    server.eventually(lambda: server.metric("headrace_requests_aborted_total") == 8)
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    connection.close()


def test_connections_are_bounded_in_all_and_an_address(start) -> None:
    server = start(limits=HttpLimits(max_connections=8, max_connections_per_address=4))
    held = [server.connect() for _ in range(4)]
    server.eventually(lambda: status_of(server.raw(get())) == 503)
    for connection in held:
        connection.close()
    server.eventually(lambda: status_of(server.raw(get())) == 200)


def test_slow_strangers_do_not_slow_a_good_client(start) -> None:
    server = start(limits=HttpLimits(header_timeout_s=600))
    strangers = [server.connect() for _ in range(200)]
    for stranger in strangers:
        stranger.sendall(b"GET /livez HTTP/1.1\r\nX-Slow")
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 5}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: server.post("/v1/completions", body), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert select.select(strangers, [], [], 0)[0] == [], "none had been sent away before it was served"
    for stranger in strangers:
        stranger.close()


class Turns:
    """The most processor time that an event loop took for one turn, while nobody else's turn came."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.longest_s = 0.0
        self._loop = loop
        self._is_over = False
        self._used_s = 0.0

    def __enter__(self) -> Self:
        self._loop.call_soon_threadsafe(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    def _begin(self) -> None:
        self._used_s = time.thread_time()
        self._turn()

    def _turn(self) -> None:
        used_s = time.thread_time()
        self.longest_s = max(self.longest_s, used_s - self._used_s)
        self._used_s = used_s
        if not self._is_over:
            self._loop.call_soon(self._turn)


def test_probes_answer_while_bodies_are_parsed(server) -> None:
    hostile = b'{"model":"alphabet","prompt":["' + b'","'.join([b"a"] * 20_000) + b'"]}'
    request = post(hostile, f"Content-Length: {len(hostile)}", "Connection: close")
    with ThreadPoolExecutor(4) as pool, Turns(server._loop) as turns:
        busy = [pool.submit(server.raw, request) for _ in range(24)]
        while not all(each.done() for each in busy):
            assert status_of(server.raw(get())) == 200
    assert {status_of(each.result()) for each in busy} == {400}
    assert turns.longest_s < 0.25
