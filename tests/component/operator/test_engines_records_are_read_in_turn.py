"""The feed against engines over real HTTP: when they are asked, from where, and what comes of bad answers."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headrace_operator.api.spec import Runtime
from headrace_operator.observe.admin import AdminClient, Signer
from headrace_operator.observe.feed import LIMIT, LONGEST_REST_S, MAX_REPLY_BYTES, Feed
from headrace_operator.observe.sample import PodSample
from headrace_operator.observe.scraper import Target
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import Counter

NOTHING_LOST = {"steps": 0, "requests": 0}
RECORD = {"ended_s": 9.0, "prompt_tokens": 40, "cached_tokens": 0, "output_tokens": 8, "outcome": "stop"}


class Pod:
    """An engine, and the operator that follows it; a look is a scrape and what comes after it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.counted: list[str] = []
        self.windows = ServiceWindows()
        self.now_s, self.arrivals = 1000.0, 5.0
        self.status, self.changed = 200, {}
        self.body: bytes | None = None
        self.runtime = Runtime.HEADRACE
        self.feed: Feed

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.query_string)
        if self.body is not None:
            return web.Response(body=self.body, status=self.status)
        document: dict[str, Any] = {"cursor": f"a.{len(self.asked)}", "more": False, "lost": NOTHING_LOST}
        document |= {"now_s": 10.0, "steps": [], "requests": [RECORD]}
        headers = {"Location": "/elsewhere"} if self.status == 307 else {}
        return web.json_response(document | self.changed, status=self.status, headers=headers)

    async def look(self, *, after_s: float = 10.0, arrivals: int = 0) -> None:
        self.now_s, self.arrivals = self.now_s + after_s, self.arrivals + arrivals
        sample = PodSample(self.now_s, {Counter.ARRIVALS: self.arrivals}, {}, {})
        self.windows.record("pod", sample, longest_break_s=3600.0, retention_s=3600.0)
        target = Target("pod", "127.0.0.1", 0, self.runtime)
        await self.feed.follow(target, self.windows, retention_s=3600.0)

    @property
    def requests(self) -> int:
        mix = self.windows.records.mix(start_s=0.0, now_s=self.now_s)
        return 0 if mix is None else mix.requests


@pytest.fixture
async def pod() -> AsyncIterator[Pod]:
    pod, app = Pod(), web.Application()
    app.router.add_get("/v1/admin/telemetry", pod.answer)
    signer = Signer(Ed25519PrivateKey.generate())
    client = AdminClient(
        signer=signer, wall_clock=lambda: pod.now_s, timeout_s=60, max_reply_bytes=MAX_REPLY_BYTES
    )
    async with TestServer(app) as server, aclosing(client) as admin:
        pod.feed = Feed(
            admin=admin,
            clock=lambda: pod.now_s,
            wall_clock=lambda: pod.now_s,
            count=pod.counted.append,
            port=int(server.port or 0),
        )
        yield pod


async def test_an_engine_at_rest_is_never_asked(pod):
    for _ in range(100):
        await pod.look()
    assert pod.asked == []


async def test_one_at_work_is_asked_every_ten_seconds_from_where_the_last_answer_ended(pod):
    await pod.look()
    for _ in range(10):
        await pod.look(after_s=2.0, arrivals=1)
    assert pod.asked == [f"limit={LIMIT}", f"limit={LIMIT}&since=a.1"]
    assert (pod.counted, pod.requests) == (["Ok", "Ok"], 2)


async def test_once_what_it_did_is_read_it_is_left_alone(pod):
    await pod.look()
    await pod.look(arrivals=3)
    for _ in range(20):
        await pod.look()
    assert len(pod.asked) == 1


async def test_what_did_not_fit_is_fetched_at_the_next_turn_and_not_at_once(pod):
    pod.changed = {"more": True}
    await pod.look()
    await pod.look(arrivals=3)
    await pod.look(after_s=2.0)
    assert len(pod.asked) == 1
    pod.changed = {}
    await pod.look()
    await pod.look()
    assert len(pod.asked) == 2


async def test_a_new_start_of_the_engine_is_a_gap_and_is_followed(pod):
    await pod.look()
    await pod.look(arrivals=1)
    pod.changed = {"cursor": "b.7", "lost": None}
    await pod.look(arrivals=1)
    pod.changed = {}
    await pod.look(arrivals=1)
    assert pod.counted == ["Ok", "Gap", "Ok"]
    assert pod.asked[-1] == f"limit={LIMIT}&since=b.7"


async def test_a_cursor_that_is_not_taken_is_forgotten(pod):
    await pod.look()
    await pod.look(arrivals=1)
    pod.status = 400
    await pod.look(arrivals=1)
    pod.status = 200
    await pod.look(after_s=20.0, arrivals=1)
    assert pod.counted == ["Ok", "Refused", "Ok"]
    assert pod.asked[-1] == f"limit={LIMIT}"


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        (404, None, "Refused"),
        (401, None, "Refused"),
        (307, None, "Refused"),
        (200, b"no json", "Malformed"),
        (200, b"[" * 100_000, "Malformed"),
        (200, b"{}", "Malformed"),
        (200, b" " * (MAX_REPLY_BYTES + 1), "NoAnswer"),
    ],
    ids=["no such route", "no such key", "a redirect", "no JSON", "nested", "no telemetry", "too much"],
)
async def test_one_that_gives_none_is_asked_less_and_less_often(pod, status, body, word):
    pod.status, pod.body = status, body
    await pod.look()
    for _ in range(130):
        await pod.look(arrivals=1)
    assert set(pod.counted) == {word}
    assert len(pod.asked) == 7, "after 20, 40, 80, 160, 320 and 640 s"
    assert pod.requests == 0
    pod.status, pod.body = 200, None
    await pod.look(after_s=LONGEST_REST_S, arrivals=1)
    await pod.look(arrivals=1)
    assert pod.counted[-2:] == ["Ok", "Ok"]


async def test_an_engine_that_is_not_ours_to_call_is_not_called(pod):
    pod.runtime = Runtime.VLLM
    await pod.look()
    await pod.look(arrivals=3)
    assert pod.asked == []


async def test_a_record_that_cannot_be_is_counted_and_the_others_are_taken(pod):
    pod.changed = {"requests": [RECORD, RECORD | {"prompt_tokens": -1}]}
    await pod.look()
    await pod.look(arrivals=2)
    assert (pod.counted, pod.requests) == (["Implausible"], 1)


async def test_of_a_pod_that_is_gone_nothing_is_kept(pod):
    await pod.look()
    await pod.look(arrivals=1)
    pod.feed.keep(())
    await pod.look()
    await pod.look(arrivals=1)
    assert pod.asked == [f"limit={LIMIT}"] * 2
