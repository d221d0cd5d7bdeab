"""The operator's own reader at a real engine's admin port: signed calls, and every request counted once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from operator_builders import resource
from yarl import URL

from headrace_engine.server.admin_credentials import AdminCredentials
from headrace_operator.observe import feed as feed_module
from headrace_operator.observe.admin import AdminClient, Signer
from headrace_operator.observe.collector import Collector
from headrace_operator.observe.feed import Feed
from headrace_operator.observe.sample import sample
from headrace_operator.observe.scraper import Scraper, Target
from headrace_operator.observe.specs import Specs
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import HEADRACE

POD = "0b9c6f0e-pod"
WINDOW_S = 3600.0


class Reader:
    """Looks at an engine as the operator does: a scrape, then the records, ten seconds apart by its clock."""

    def __init__(self, engine, scraper: Scraper, admin: AdminClient) -> None:
        url, admin_url = URL(engine.url), URL(engine.admin_url)
        self.target = Target(POD, "127.0.0.1", int(url.port or 0))
        self.scraper, self.windows, self.now_s, self.counted = scraper, ServiceWindows(), 0.0, []
        self.feed = Feed(
            admin=admin,
            clock=lambda: self.now_s,
            wall_clock=time.time,
            count=self.counted.append,
            port=int(admin_url.port or 0),
        )

    async def look(self) -> None:
        self.now_s += feed_module.INTERVAL_S
        found = await self.scraper.scrape(self.target, wanted=HEADRACE.wanted)
        scraped = sample(found, metrics=HEADRACE, at_s=time.time())
        self.windows.record(POD, scraped, longest_break_s=WINDOW_S, retention_s=WINDOW_S)
        await self.feed.follow(self.target, self.windows, retention_s=WINDOW_S)

    def seen(self):
        span = {"start_s": time.time() - WINDOW_S, "now_s": time.time()}
        return self.windows.records.mix(**span), self.windows.records.step_work(**span)


@pytest.fixture
def signer() -> Signer:
    return Signer(Ed25519PrivateKey.generate())


@pytest.fixture
def engine(start, signer, tmp_path):
    keys = tmp_path / "admin-keys.json"
    keys.write_text(signer.public_keys())
    return start(admin=AdminCredentials(keys, None, POD))


@pytest.fixture
async def reader(engine, signer) -> AsyncIterator[Reader]:
    client = AdminClient(signer=signer, wall_clock=time.time, timeout_s=60, max_reply_bytes=2 << 20)
    async with aclosing(Scraper(timeout_s=60)) as scraper, aclosing(client) as admin:
        yield Reader(engine, scraper, admin)


def ask(engine, prompt: str, max_tokens: int) -> None:
    body = {"model": "alphabet", "prompt": prompt, "max_tokens": max_tokens}
    assert engine.post("/v1/completions", body).status_code == 200


async def test_every_request_and_every_step_is_counted_once(engine, reader, monkeypatch):
    monkeypatch.setattr(feed_module, "LIMIT", 3)
    await reader.look()
    assert reader.counted == [], "it has done nothing yet"
    for _ in range(9):
        ask(engine, "abcdefgh", 4)
    ask(engine, "a" * 100, 2)
    for _ in range(30):
        await reader.look()
    mix, work = reader.seen()
    assert (mix.requests, mix.prompt_tokens_p50, mix.prompt_tokens_p95) == (10, 8, 100)
    assert (mix.output_tokens_p50, mix.output_tokens_p95) == (4, 4)
    assert work.steps == engine.metric("headrace_step_seconds_count")
    assert set(reader.counted) == {"Ok"}
    assert len(reader.counted) < 30, "once it is read to the end, it is left alone"


async def test_an_engine_that_another_operator_speaks_for_gives_nothing(engine, reader, monkeypatch):
    stranger = Signer(Ed25519PrivateKey.generate())
    await reader.look()
    ask(engine, "abc", 1)
    async with aclosing(AdminClient(signer=stranger, wall_clock=time.time, timeout_s=60)) as admin:
        monkeypatch.setattr(reader.feed, "_admin", admin)
        await reader.look()
    assert (reader.counted, reader.seen()) == (["Refused"], (None, None))


class OneTarget:
    """The engine is the one pod of the one service."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def service_uids(self) -> set[str]:
        return {resource()["metadata"]["uid"]}

    async def all(self):
        return [(self.target, resource())]


async def test_scrapes_that_show_work_lead_to_the_records(engine, reader):
    """The whole way: the loop that scrapes, the reader, the window that decisions are explained by."""
    looks: list[str] = []
    reader.feed = Feed(
        admin=reader.feed._admin,
        clock=lambda: feed_module.INTERVAL_S * len(looks),
        wall_clock=time.time,
        count=reader.counted.append,
        port=int(URL(engine.admin_url).port or 0),
    )
    collector = Collector(
        targets=OneTarget(reader.target),
        specs=Specs(),
        scraper=reader.scraper,
        interval_s=0.02,
        wall_clock=time.time,
        clock=time.monotonic,
        is_leader=lambda: True,
        count=looks.append,
        tell=lambda *_: None,
        feed=reader.feed,
    )
    running = asyncio.create_task(collector.run())
    try:
        await until(lambda: len(looks) >= 2)
        await asyncio.to_thread(ask, engine, "abcdefgh", 4)
        windows = collector.windows_of(resource()["metadata"]["uid"])
        await until(lambda: windows.records.mix(start_s=time.time() - 60, now_s=time.time()))
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    window = windows.window(start_s=time.time() - 60, now_s=time.time(), ready_uids=(POD,), fresh_s=6.0)
    assert (window.mix.requests, window.mix.prompt_tokens_p95, window.arrivals) == (1, 8, 1)
    assert set(looks) == {"Ok"}


async def until(holds) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)
