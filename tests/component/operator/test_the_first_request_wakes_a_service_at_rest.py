"""From an engine over real HTTP to the work queue: idle scrapes wake nobody, the first request does."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from operator_builders import resource

from headrace_operator.kube.kinds import Key
from headrace_operator.observe.collector import Collector
from headrace_operator.observe.scraper import Scraper, Target
from headrace_operator.observe.specs import Specs
from headrace_operator.run.rest import Rest

CHAT = Key("default", "chat")


class Engine:
    """Counts the requests that it is told of."""

    arrivals, scrapes, more = 0, 0, ""

    async def metrics(self, _request: web.Request) -> web.Response:
        self.scrapes += 1
        return web.Response(text=f"headrace_requests_received_total {self.arrivals}\n{self.more}")


class OneTarget:
    """The one pod of the one service."""

    def __init__(self, server: TestServer) -> None:
        self.target = Target("pod", str(server.host), int(server.port or 0))

    def service_uids(self) -> set[str]:
        return {resource()["metadata"]["uid"]}

    async def all(self) -> list[tuple[Target, Any]]:
        return [(self.target, resource())]


async def until(check: Any) -> None:
    async with asyncio.timeout(60):
        while not check():
            await asyncio.sleep(0.01)


@pytest.fixture
async def engine():
    engine, app = Engine(), web.Application()
    app.router.add_get("/metrics", engine.metrics)
    async with TestServer(app) as server:
        engine.server = server
        yield engine


@asynccontextmanager
async def collecting(engine, *, tell, count=lambda _result: None):
    """The pod is scraped every 20 ms."""
    scraper = Scraper()
    collector = Collector(
        targets=OneTarget(engine.server),
        specs=Specs(),
        scraper=scraper,
        interval_s=0.02,
        wall_clock=time.time,
        clock=time.monotonic,
        is_leader=lambda: True,
        count=count,
        tell=tell,
    )
    running = asyncio.create_task(collector.run())
    try:
        await until(lambda: engine.scrapes >= 2)
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await scraper.aclose()


async def test_it_is_woken_once_by_the_first_request(engine):
    woken: list[Key] = []
    rest = Rest(woken.append)
    async with collecting(engine, tell=rest.scraped):
        rest.intervals(CHAT, at_rest=True)
        idle = engine.scrapes
        await until(lambda: engine.scrapes >= idle + 3)
        assert woken == []
        engine.arrivals = 1
        await until(lambda: woken == [CHAT])
        engine.arrivals = 2
        seen = engine.scrapes
        await until(lambda: engine.scrapes >= seen + 3)
        assert woken == [CHAT]


async def test_what_one_pod_says_ends_no_scrape_of_the_others(engine):
    """One that counts without buckets, and one that runs into a bug: the process goes on."""
    counted: list[str] = []

    def stumble(*_: object) -> None:
        raise ZeroDivisionError

    engine.more = "headrace_queue_time_seconds_count 5\n {nameless} 1\n"
    async with collecting(engine, tell=lambda *_: None, count=counted.append):
        await until(lambda: counted.count("Ok") >= 3)
    counted.clear()
    async with collecting(engine, tell=stumble, count=counted.append):
        await until(lambda: counted.count("Bug") >= 3)
