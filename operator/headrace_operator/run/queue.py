"""The work queue: which services to reconcile, and when.

A key waits at most once, is worked on by one worker at a time, and has at most one pending wake: the earliest
asked for. Added while it is worked on, it comes again afterwards, so no change is lost. Namespaces take
turns, so that thousands of services of one do not starve another. Time is monotonic seconds.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable

from headrace_operator.kube.kinds import Key


class WorkQueue:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: OrderedDict[str, OrderedDict[Key, float]] = OrderedDict()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._wakes: dict[Key, float] = {}
        self._wake_order: list[tuple[float, Key]] = []
        """A heap; an entry that `_wakes` does not confirm is void."""
        self._changed = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        """Keys that are due now."""
        return sum(len(keys) for keys in self._due.values())

    @property
    def busy(self) -> frozenset[Key]:
        return frozenset(self._busy)

    def wake_at_s(self, key: Key) -> float | None:
        return self._wakes.get(key)

    def oldest_age_s(self) -> float:
        """How long the key that is due longest has waited; 0 where none is."""
        since = [added_s for keys in self._due.values() for added_s in keys.values()]
        return self._clock() - min(since) if since else 0.0

    def add(self, key: Key) -> None:
        """Reconcile soon."""
        if self._closed:
            return
        if key in self._busy:
            self._again.add(key)
            return
        self._due.setdefault(key.namespace, OrderedDict()).setdefault(key, self._clock())
        self._changed.set()

    def add_after(self, key: Key, delay_s: float) -> None:
        """Reconcile in `delay_s` at the latest: of two wakes the earlier one stays."""
        if self._closed:
            return
        at_s = self._clock() + delay_s
        if at_s < self._wakes.get(key, float("inf")):
            self._wakes[key] = at_s
            heapq.heappush(self._wake_order, (at_s, key))
            self._changed.set()

    def pop(self) -> Key | None:
        """A key to work on, now busy until `done`; None where none is due."""
        if self._closed:
            return None
        self._ring()
        if not self._due:
            return None
        namespace, keys = self._due.popitem(last=False)
        key, _ = keys.popitem(last=False)
        if keys:
            self._due[namespace] = keys
        # This run sees everything that the pending wake would have shown.
        self._wakes.pop(key, None)
        self._busy.add(key)
        return key

    def done(self, key: Key) -> None:
        """The work on `key` ended, well or not."""
        self._busy.remove(key)
        if key in self._again:
            self._again.remove(key)
            self.add(key)

    def close(self) -> None:
        """Hand out nothing more; whoever waits in `get` gets None."""
        self._closed = True
        self._due.clear()
        self._wakes.clear()
        self._changed.set()

    async def get(self) -> Key | None:
        """The next key, waiting for one; None once closed."""
        while not self._closed:
            key = self.pop()
            if key is not None:
                return key
            self._changed.clear()
            try:
                async with asyncio.timeout(self._until_next_wake_s()):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return None

    def _ring(self) -> None:
        now_s = self._clock()
        while self._next_wake_s() <= now_s:
            _, key = heapq.heappop(self._wake_order)
            del self._wakes[key]
            self.add(key)

    def _next_wake_s(self) -> float:
        while self._wake_order:
            at_s, key = self._wake_order[0]
            if self._wakes.get(key) == at_s:
                return at_s
            heapq.heappop(self._wake_order)
        return float("inf")

    def _until_next_wake_s(self) -> float | None:
        at_s = self._next_wake_s()
        return max(0.0, at_s - self._clock()) if at_s < float("inf") else None
