"""The metrics of a real vLLM, as it gave them, through the real scraper into a window."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from headrace_operator.observe.exposition import Exposition
from headrace_operator.observe.sample import sample
from headrace_operator.observe.scraper import Scraper, Target
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import VLLM

RECORDINGS = Path(__file__).parents[2] / "recordings"
IDLE, BUSY = (RECORDINGS / f"vllm-0.32.0-{state}.txt" for state in ("idle", "busy"))


@asynccontextmanager
async def vllm() -> AsyncIterator[tuple[Target, list[Path]]]:
    """A pod that answers with the recording that stands last in the list."""
    shown = [IDLE]

    async def metrics(_: web.Request) -> web.FileResponse:
        return web.FileResponse(shown[-1], headers={"Content-Type": "text/plain; version=0.0.4"})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield Target("uid", "127.0.0.1", site._server.sockets[0].getsockname()[1]), shown
    finally:
        await runner.cleanup()


async def window():
    """What a service of that one pod looks like from before its first request until 10 s later."""
    windows, scraper = ServiceWindows(), Scraper()
    async with vllm() as (target, shown):
        for at_s, recording in ((100.0, IDLE), (110.0, BUSY)):
            shown.append(recording)
            found = await scraper.scrape(target, wanted=VLLM.wanted)
            assert isinstance(found, Exposition), found
            windows.record(
                "uid", sample(found, metrics=VLLM, at_s=at_s), longest_break_s=60.0, retention_s=60.0
            )
    await scraper.aclose()
    return windows.window(start_s=100.0, now_s=110.0, ready_uids=["uid"], fresh_s=6.0)


async def test_what_vllm_counts_is_what_rules_need():
    seen = await window()
    assert (seen.pods_reporting, seen.pods_expected) == (1, 1)
    assert (seen.rejections, seen.arrivals) == (8, 16), "8 got a first token, 8 were refused"
    assert (seen.prompt_tokens, seen.generation_tokens) == (64, 305)
    assert (seen.failed, seen.preemptions) == (0, 0)
    assert seen.steps > 100
    assert seen.running_per_pod == pytest.approx(1.0), "none, then two"
    assert seen.kv_used_ratio > 0


async def test_its_latencies_are_read_from_its_histograms():
    seen = await window()
    assert 0 < seen.itl_s.quantile(0.5) < 0.1
    assert 0 < seen.ttft_s.quantile(0.5) < 0.5
    assert seen.queue_time_s.total == 6, "observed when a request ends"


async def test_what_it_does_not_say_is_unknown_not_zero():
    seen = await window()
    assert (seen.good, seen.late, seen.step_budget_used_ratio, seen.oldest_waiting_age_s) == (None,) * 4


def test_every_name_of_the_map_stands_in_the_recording():
    names = {line.partition("{")[0].split()[0] for line in BUSY.read_text().splitlines() if line[:1] != "#"}
    assert VLLM.wanted <= names
