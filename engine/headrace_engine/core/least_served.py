"""Which of some tenants was served least: a heap that is corrected when it is asked.

Service only grows, so the order that was once seen is right but for tenants that have moved down since:
looking again at the head is enough. Of equals, whoever was put in first.
"""

import heapq
from collections.abc import Callable


class LeastServed:
    """Tenants by what they were served. Each operation costs the logarithm of their number, amortized."""

    _LEAST_SWEPT = 64

    def __init__(self, service: Callable[[str], float]) -> None:
        self._service = service
        self._heap: list[tuple[float, int, str]] = []
        self._pushes: dict[str, int] = {}
        """The push that each tenant came with; entries of others are void."""
        self._num_pushes = 0

    def put(self, tenant: str) -> None:
        """Take a tenant in that is not there."""
        self._num_pushes += 1
        self._pushes[tenant] = self._num_pushes
        heapq.heappush(self._heap, (self._service(tenant), self._num_pushes, tenant))
        if len(self._heap) > self._LEAST_SWEPT + 2 * len(self._pushes):
            self._heap = [entry for entry in self._heap if self._pushes.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def drop(self, tenant: str) -> None:
        """Let a tenant go."""
        del self._pushes[tenant]

    def least(self) -> str | None:
        """The least served; None if there is none."""
        heap, pushes = self._heap, self._pushes
        while heap:
            seen, push, tenant = heap[0]
            if pushes.get(tenant) != push:
                heapq.heappop(heap)
            elif (service := self._service(tenant)) != seen:
                heapq.heapreplace(heap, (service, push, tenant))
            else:
                return tenant
        return None

    def __contains__(self, tenant: str) -> bool:
        return tenant in self._pushes
