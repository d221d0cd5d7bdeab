"""The supervisor of the parts of the process."""

import asyncio
import os
import signal

import pytest

from headrace_operator.run.supervisor import Supervisor


async def for_ever():
    await asyncio.Event().wait()


async def ends():
    await asyncio.sleep(0)


async def fails():
    raise ZeroDivisionError


@pytest.mark.parametrize("part", [ends, fails])
async def test_a_part_that_ends_by_itself_is_no_orderly_stop(part, caplog):
    parts = Supervisor()
    parts.start("steady", for_ever())
    parts.start("frail", part())
    assert await asyncio.wait_for(parts.wait(), 60) is False
    assert "frail ended by itself" in caplog.text
    await parts.end("frail", "steady")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_asks_for_an_orderly_stop(number):
    parts = Supervisor()
    parts.handle_signals()
    parts.start("steady", for_ever())
    os.kill(os.getpid(), number)
    assert await asyncio.wait_for(parts.wait(), 60) is True
    await parts.end("steady")
    asyncio.get_running_loop().remove_signal_handler(number)


async def test_a_part_is_given_time_to_end_and_no_more():
    finished = []

    async def tidy():
        await asyncio.sleep(0.01)
        finished.append("tidy")

    parts = Supervisor()
    parts.start("tidy", tidy())
    await parts.end("tidy", within_s=60)
    parts.start("stubborn", for_ever())
    await asyncio.wait_for(parts.end("stubborn", within_s=0.01), 60)
    assert finished == ["tidy"]
