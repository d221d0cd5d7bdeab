"""The life of an engine core as HTTP sees it: started, loaded, linked to, ended."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from headrace_engine.link.client import CoreLink
from headrace_engine.link.hosts import CoreHost
from headrace_engine.server.heartbeat import Pulses
from headrace_engine.server.loop import LAST_STEP_S
from headrace_engine.server.model import ServedModel
from headrace_engine.server.tokenizer_trial import try_out

log = logging.getLogger(__name__)
T = TypeVar("T")

EXIT_S = 1.0
"""How long a core may take to exit after its last word."""


class CoreLifetime:
    """Of one core, on one event loop. `end` it whatever `start` came to."""

    def __init__(self, host: CoreHost) -> None:
        self._host = host
        self._link: CoreLink | None = None
        self._is_loaded = False

    @property
    def pid(self) -> int | None:
        """Its process, if it has one of its own."""
        return self._host.pid

    async def start(self) -> tuple[CoreLink, ServedModel]:
        """The link to it, once its model is loaded. The tokenizer is read beside the weights.

        Raises:
            OSError: it cannot be started.
            ModelLoadError: its model cannot be loaded.
            CoreLostError: it is gone before that.
        """
        link = self._link = await CoreLink.connect(self._host.start(), Pulses(time.monotonic))
        directory = await link.found
        tokenizer = await _in_thread(lambda: self._host.tokenizer(directory))
        await try_out(tokenizer, directory)
        model = ServedModel.of(await link.loaded, tokenizer)
        self._is_loaded = True
        return link, model

    async def end(self) -> None:
        """After the step under way, if that ends; at once where nothing was ever computed."""
        if self._link is None:
            return
        self._link.stop()
        await asyncio.wait([self._link.lost], timeout=LAST_STEP_S if self._is_loaded else 0.0)
        exits_within_s = EXIT_S if self._link.lost.done() else 0.0
        if self._is_loaded and not self._link.lost.done():
            log.warning("the step under way does not end; the engine core is killed")
        self._link.close()
        died_of = await asyncio.to_thread(self._host.end, exits_within_s)
        if died_of is not None:
            log.error("the engine core is gone", extra={"reason": died_of})


async def _in_thread(work: Callable[[], T]) -> T:
    """On a daemon thread: leaving meanwhile does not wait for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[Any], None], outcome: Any) -> None:
        if not done.cancelled():
            settled(outcome)

    def run() -> None:
        try:
            outcome: tuple[Callable[[Any], None], Any] = (done.set_result, work())
        except BaseException as error:  # noqa: BLE001 - the loop's to report
            outcome = (done.set_exception, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="read-tokenizer", daemon=True).start()
    return await done
