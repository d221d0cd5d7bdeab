"""500 streams, opened and dropped at random moments by every way there is to leave: nothing stays behind."""

import asyncio
import functools
import json
import random
import socket
import struct
from collections import Counter

import pytest

from headrace_engine.server.engine import UNANSWERED_BESIDE

STREAMS = 500
LONGEST_STAY_S = 0.05
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: a close that sends RST instead of FIN."""
OUTCOMES = (
    "headrace_requests_finished_total",
    "headrace_request_rejections_total",
    "headrace_requests_aborted_total",
)


class Leaver:
    """One client: asks, reads for a while, and is gone."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def request(self) -> bytes:
        chance = self._chance
        prompt = "abcdefgh" * chance.randint(1, 12)
        body = {
            "model": "alphabet",
            "prompt": [prompt, prompt + "i"] if chance.random() < 0.1 else prompt,
            "max_tokens": chance.randint(1, 100),
            "stream": chance.random() < 0.8,
            "ignore_eos": chance.random() < 0.5,
            "stop": ["xyz"] if chance.random() < 0.3 else [],
        }
        content = json.dumps(body).encode()
        head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        request = f"{head}content-length: {len(content)}\r\n\r\n".encode() + content
        return request[: chance.randrange(1, len(request))] if chance.random() < 0.1 else request

    async def visit(self, host: str, port: int) -> None:
        chance = self._chance
        await asyncio.sleep(chance.uniform(0, 20 * LONGEST_STAY_S))
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(self.request())
        try:
            async with asyncio.timeout(chance.uniform(0, LONGEST_STAY_S)):
                while await reader.read(4096):
                    pass
        except (TimeoutError, ConnectionError):
            pass
        if chance.random() < 0.5:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
        writer.close()


def test_no_block_stays_referenced_and_the_counts_reconcile(start) -> None:
    server = start(step_s=0.001, max_num_seqs=16, max_num_queued_reqs=24, num_blocks=128)
    host, port = server.url.removeprefix("http://").split(":")

    async def all_of_them() -> None:
        leavers = [Leaver(number) for number in range(STREAMS)]
        await asyncio.gather(*(leaver.visit(host, int(port)) for leaver in leavers))

    asyncio.run(all_of_them())
    assert_nothing_is_left(server)
    assert server.metric("headrace_requests_aborted_total") > STREAMS / 10
    assert server.post("/v1/completions", {"model": "alphabet", "prompt": "w"}).status_code == 200


def come_and_go(server, prompt: str, times: int) -> None:
    body = json.dumps({"model": "alphabet", "prompt": prompt, "max_tokens": 2, "stream": True}).encode()
    head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    for _ in range(times):
        with server.connect() as connection:
            connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)


@pytest.mark.parametrize(
    ("prompt", "most", "full_of"),
    [
        pytest.param("a", 2 * (1 + 1) + UNANSWERED_BESIDE, "queue_full_requests", id="requests"),
        pytest.param("a" * 30, 2 * (32 + 20) // 30, "queue_full_tokens", id="tokens"),
    ],
)
def test_what_comes_and_goes_during_one_long_step_is_bounded(start, prompt, most, full_of) -> None:
    """The core answers between two steps: prompts on their way to it must not pile up without end."""
    server = start(max_num_seqs=1, max_num_queued_reqs=1, max_num_queued_tokens=20, num_blocks=8)
    server.model.may_step.clear()
    come_and_go(server, prompt, most)
    refused = functools.partial(server.metric, "headrace_request_rejections_total", reason=full_of)
    # Who hangs up before its request was read asked for nothing, so there is no telling how many it takes.
    server.eventually(lambda: come_and_go(server, prompt, 1) or refused() >= 10)
    assert server.process.service.serving().engine.num_unanswered == most
    server.model.may_step.set()
    assert_nothing_is_left(server)
    assert server.metric("headrace_requests_received_total") >= most + 10
    assert server.post("/v1/completions", {"model": "alphabet", "prompt": prompt}).status_code == 200


def assert_nothing_is_left(server) -> None:
    """Whoever hung up may still be on its way in: then it is at rest a moment later."""
    engine = server.process.service.serving().engine
    server.eventually(lambda: engine.num_unanswered == 0 and engine.all_read and is_at_rest(server))


def is_at_rest(server) -> bool:
    """By one scrape: between two of them somebody may come."""
    found = Counter()
    for name, _, value in server.samples():
        found[name] += value
    left = ("vllm:kv_cache_usage_perc", "headrace_in_flight", "headrace_requests_unaccounted")
    told = sum(found[name] for name in OUTCOMES)
    return not any(found[name] for name in left) and found["headrace_requests_received_total"] == told
