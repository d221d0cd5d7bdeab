"""Leaving without breaking a stream.

Not ready at once; for a grace still serving what is routed here, because balancers see that with a lag; then
new requests are refused and those in flight finish, and are read; at the deadline the rest end with a
terminal event each.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from headrace_engine.server.engine import Engine
from headrace_engine.server.service import Service

log = logging.getLogger(__name__)

LAST_STEP_S = 10.0
"""How long after the deadline the step under way is waited for. One that hangs would keep the process for
ever.
"""


class Drain:
    """One drain for the life of the process; asking again can only bring its end closer."""

    def __init__(self, service: Service, grace_s: float) -> None:
        self._service = service
        self._grace_s = grace_s
        self._task: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()
        """The deadline has come."""
        self.drained = False
        """No request is in flight and none will be taken."""

    @property
    def begun(self) -> bool:
        return self._task is not None

    def begin(self, timeout_s: float) -> None:
        """Raises `ApiError` (503) while there is nothing to drain."""
        engine = self._service.serving().engine
        self._end_within(timeout_s)
        if self._task is None:
            log.info("draining", extra={"timeout_s": timeout_s})
            self._service.leave()
            self._task = asyncio.create_task(self._drain(engine))

    def hurry(self) -> None:
        """Ends what is in flight now, with its terminal event."""
        self._over.set()

    async def wait(self) -> None:
        if self._task is not None:
            await self._task

    def _end_within(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        if self._deadline is not None and self._deadline.when() <= loop.time() + timeout_s:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = loop.call_later(timeout_s, self._over.set)

    async def _drain(self, engine: Engine) -> None:
        # Who never asked whether this engine is ready learns nothing from its not being so.
        grace_s = self._grace_s if self._service.readiness_watched else 0.0
        await _first(self._over.wait(), timeout_s=grace_s)
        engine.close_admission()
        await _first(self._over.wait(), engine.wait_read())
        if engine.num_unanswered:
            log.warning("ending requests at the drain's deadline", extra={"requests": engine.num_unanswered})
            engine.abort_all()
            await _first(engine.wait_ended(), timeout_s=LAST_STEP_S)
        self.drained = not engine.num_unanswered
        log.info("drained" if self.drained else "not drained: a step does not end")


async def _first(*events: Coroutine[Any, Any, object], timeout_s: float | None = None) -> None:
    tasks = [asyncio.ensure_future(event) for event in events]
    await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
