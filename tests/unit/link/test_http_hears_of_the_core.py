"""HTTP's end of the link, with the test in the core's place: what is heard, and what is heard too late."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.request import FinishReason
from headrace_engine.link import messages as say
from headrace_engine.link.client import CoreLink, CoreLostError
from headrace_engine.link.frames import Frames, framed
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.server.heartbeat import Pulses
from headrace_engine.server.model import ModelFacts
from headrace_engine.server.rules import Rules

FACTS = ModelFacts(
    capacity=Capacity(4, 16, 64, 32, 4), vocab_size=258, eos_token_ids=frozenset(), dtype="float32"
)
RULES = Rules(Limits(4, 16))


def linked(story: Callable[[CoreLink, socket.socket], Awaitable[None]]) -> None:
    async def run() -> None:
        near, core = socket.socketpair()
        core.settimeout(60)
        with core:
            await story(await CoreLink.connect(near, Pulses(lambda: 0.0)), core)

    asyncio.run(asyncio.wait_for(run(), 60))


def tell(core: socket.socket, notice: say.Notice) -> None:
    core.sendall(framed(say.NOTICE + say.NOTICES.dump_json(notice)))


def asked(core: socket.socket) -> list[say.Command]:
    return [say.COMMANDS.validate_json(payload) for payload in Frames().feed(core.recv(65536))]


def test_a_core_that_was_lost_before_anybody_listened_is_told_of_all_the_same() -> None:
    """It may die right after it loaded, while the tokenizer is still being read."""

    async def story(link: CoreLink, core: socket.socket) -> None:
        tell(core, say.Loaded(FACTS))
        core.close()
        await link.lost
        assert await link.loaded == FACTS
        ended = asyncio.Event()
        link.listen(lambda _report: None, ended.set)
        await ended.wait()

    linked(story)


def test_whoever_waits_hears_that_the_core_is_gone() -> None:
    async def story(link: CoreLink, core: socket.socket) -> None:
        change = asyncio.create_task(link.set_rules(RULES, new_policy=False))
        await asyncio.sleep(0)
        core.close()
        for waiting in (change, link.found, link.loaded):
            with pytest.raises(CoreLostError):
                await waiting
        link.abort(["a"], FinishReason.ABORT)
        with pytest.raises(CoreLostError):
            await link.set_rules(RULES, new_policy=False)

    linked(story)


def test_a_model_that_cannot_be_loaded_has_its_reason() -> None:
    async def story(link: CoreLink, core: socket.socket) -> None:
        tell(core, say.NotLoaded("add memory"))
        with pytest.raises(ModelLoadError, match="add memory"):
            await link.loaded

    linked(story)


def test_a_change_of_rules_returns_when_it_holds() -> None:
    async def story(link: CoreLink, core: socket.socket) -> None:
        first, second = (asyncio.create_task(link.set_rules(RULES, new_policy=new)) for new in (False, True))
        await asyncio.sleep(0)
        commands = asked(core)
        assert [command.new_policy for command in commands] == [False, True]
        tell(core, say.RulesSet(commands[1].number, "no such policy"))
        with pytest.raises(RuntimeError, match="no such policy"):
            await second
        assert not first.done()
        tell(core, say.RulesSet(commands[0].number, None))
        await first

    linked(story)


def test_what_is_no_notice_ends_the_link() -> None:
    async def story(link: CoreLink, core: socket.socket) -> None:
        ended = asyncio.Event()
        link.listen(lambda _report: None, ended.set)
        core.sendall(framed(b'N{"kind":"gossip"}'))
        await ended.wait()
        assert core.recv(1) == b""

    linked(story)
