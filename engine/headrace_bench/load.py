"""A load: asks sent at their arrival times come what may (open loop), or so many at once (closed loop).

Bounded by a count, a duration or `stop()`; whichever comes first ends the sending, and what is in flight is
read to its end. `records` and `in_flight` may be read from another thread while the load runs.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from headrace_bench.client import Client
from headrace_bench.record import Outcome, Record
from headrace_bench.workload import Ask


@dataclass(frozen=True, slots=True)
class Bounds:
    """When sending ends: after `requests`, or after `duration_s`."""

    requests: int | None = None
    duration_s: float | None = None

    def __post_init__(self) -> None:
        if self.requests is None and self.duration_s is None:
            raise ValueError("a load is bounded by a number of requests, a duration, or both")


class Load:
    """One load on one client. Run it once."""

    def __init__(self, client: Client, asks: Iterator[Ask], bounds: Bounds) -> None:
        self._client = client
        self._asks = islice(asks, bounds.requests)
        self._duration_s = bounds.duration_s
        self._clock: Callable[[], float] = client.clock
        self._stopped = False
        self._tasks: set[asyncio.Task[Record]] = set()
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self.in_flight = 0
        self.sent = 0
        self.records: list[Record] = []

    @property
    def elapsed_s(self) -> float:
        """Seconds from the start to the end of the last answer, or to now."""
        if self.started_s is None:
            return 0.0
        return (self._clock() if self.ended_s is None else self.ended_s) - self.started_s

    def stop(self) -> None:
        """Sends no more. May be called from another thread."""
        self._stopped = True

    async def open_loop(self, arrivals_s: Iterator[float]) -> None:
        """Sends each ask at its arrival time, in seconds from the start."""
        started_s = self.started_s = self._clock()
        for ask, arrival_s in zip(self._asks, arrivals_s, strict=False):
            if self._duration_s is not None and arrival_s > self._duration_s:
                break
            await asyncio.sleep(max(0.0, started_s + arrival_s - self._clock()))
            if self._stopped:
                break
            task = asyncio.create_task(self._send(ask, started_s + arrival_s))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.gather(*self._tasks)
        self.ended_s = self._clock()

    async def closed_loop(self, concurrency: int, *, pause_s: float = 0.0) -> None:
        """Keeps `concurrency` users asking, each one the next as soon as its answer ends.

        A user whose request did not end well waits `pause_s` first, so that a refusing server is not flooded.
        """
        started_s = self.started_s = self._clock()
        until_s = None if self._duration_s is None else started_s + self._duration_s
        await asyncio.gather(*(self._user(until_s, pause_s) for _ in range(concurrency)))
        self.ended_s = self._clock()

    async def _user(self, until_s: float | None, pause_s: float) -> None:
        for ask in self._asks:
            record = await self._send(ask, None)
            if self._stopped or (until_s is not None and self._clock() >= until_s):
                return
            if record.outcome is not Outcome.OK:
                await asyncio.sleep(pause_s)

    async def _send(self, ask: Ask, due_s: float | None) -> Record:
        self.sent += 1
        self.in_flight += 1
        try:
            record = await self._client.send(ask, due_s)
        finally:
            self.in_flight -= 1
        self.records.append(record)
        return record
