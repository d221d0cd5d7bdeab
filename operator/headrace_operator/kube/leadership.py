"""Whether this process may write, by the monotonic clock.

A process that was stopped, or whose renewals hang, stops being the leader by itself before another can become
it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class NotLeadingError(Exception):
    """The lease ended: nothing more is written, and what was left undone is the next leader's."""


class Leadership:
    """Standing by until told otherwise. `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until_s: float | None = None

    def valid(self) -> bool:
        return self.remaining_s() > 0

    def remaining_s(self) -> float:
        """Seconds for which we are sure to be the only leader; 0 when we are not."""
        return max(0.0, self._until_s - self._clock()) if self._until_s is not None else 0.0

    def extend(self, until_s: float) -> None:
        self._until_s = until_s

    def end(self) -> None:
        self._until_s = None

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Around each write: begins only while we lead, ends before that does. Raises `NotLeadingError`."""
        remaining_s = self.remaining_s()
        if remaining_s <= 0:
            raise NotLeadingError("the lease is not ours")
        try:
            async with asyncio.timeout(remaining_s):
                yield
        except TimeoutError as error:
            raise NotLeadingError("the lease ended during a write") from error
