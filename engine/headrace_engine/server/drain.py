"""Leaving without breaking a stream.

Not ready at once; for a short grace still serving what is routed here (endpoints are removed with a lag);
then new requests are refused and those in flight finish; at the deadline the rest end with a terminal event
each.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from headrace_engine.server.service import Service

log = logging.getLogger(__name__)

GRACE_S = 2.0


class Drain:
    """One drain for the life of the process; asking again changes nothing."""

    def __init__(self, service: Service, grace_s: float = GRACE_S) -> None:
        self._service = service
        self._grace_s = grace_s
        self._task: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()
        self.drained = False
        """No request is in flight and none will be taken."""

    @property
    def begun(self) -> bool:
        return self._task is not None

    def begin(self, timeout_s: float) -> None:
        if self._task is None:
            log.info("draining", extra={"timeout_s": timeout_s})
            self._service.leave()
            self._task = asyncio.create_task(self._drain(timeout_s))

    def hurry(self) -> None:
        """Ends what is in flight now, with its terminal event."""
        self._hurried.set()

    async def wait(self) -> None:
        if self._task is not None:
            await self._task

    async def _drain(self, timeout_s: float) -> None:
        engine = self._service.serving().engine
        await self._first(self._hurried.wait(), timeout_s=min(self._grace_s, timeout_s))
        await engine.close_admission()
        await self._first(
            self._hurried.wait(), engine.wait_idle(), timeout_s=max(0.0, timeout_s - self._grace_s)
        )
        if engine.num_unanswered:
            log.warning("ending requests at the drain's deadline", extra={"requests": engine.num_unanswered})
            engine.abort_all()
            await engine.wait_idle()
        self.drained = True
        log.info("drained")

    async def _first(self, *events: Coroutine[Any, Any, object], timeout_s: float) -> None:
        tasks = [asyncio.ensure_future(event) for event in events]
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
