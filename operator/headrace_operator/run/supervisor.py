"""The parts of the process that run for ever. The first that ends by itself ends all the others."""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Supervisor:
    def __init__(self) -> None:
        self._parts: dict[str, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()

    def start(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        self._parts[name] = asyncio.create_task(part, name=name)

    def handle_signals(self) -> None:
        """SIGTERM and SIGINT ask for an orderly stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)

    async def wait(self) -> bool:
        """Until told to stop (True), or until a part ended by itself (False), which is logged."""
        told = asyncio.create_task(self._stop.wait(), name="stop")
        await asyncio.wait({told, *self._parts.values()}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        ended = {name: part for name, part in self._parts.items() if part.done()}
        for name, part in ended.items():
            logger.critical("%s ended by itself", name, exc_info=part.exception())
        return not ended

    async def end(self, *names: str, within_s: float = 0.0) -> None:
        """Let the named parts end by themselves for so long, then cancel them."""
        parts = [self._parts.pop(name) for name in names]
        _, late = await asyncio.wait(parts, timeout=within_s)
        for part in late:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
