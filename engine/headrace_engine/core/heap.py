"""Requests in the order of a key, any of which can leave: a binary heap whose removed entries are dropped
late.

Push and removal cost O(log n) amortized: dropped entries surface, or are swept when they outnumber the
others.
"""

import heapq

from headrace_engine.core.request import Request

Key = tuple[float, ...]


class RequestHeap:
    """Least key first; of equal keys, who was pushed first."""

    _LEAST_SWEPT = 64

    def __init__(self) -> None:
        self._heap: list[tuple[Key, int, Request]] = []
        self._pushes: dict[str, int] = {}
        """The push that each request in the heap came with; entries of others are void."""
        self._num_pushes = 0

    def push(self, request: Request, key: Key) -> None:
        """Take a request in."""
        self._num_pushes += 1
        self._pushes[request.request_id] = self._num_pushes
        heapq.heappush(self._heap, (key, self._num_pushes, request))
        if len(self._heap) > self._LEAST_SWEPT + 2 * len(self._pushes):
            self._heap = [entry for entry in self._heap if self._holds(entry)]
            heapq.heapify(self._heap)

    def peek(self) -> Request | None:
        """The first request; None if there is none."""
        while self._heap and not self._holds(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def least_key(self) -> Key | None:
        """The key of the first request; None if there is none."""
        return None if self.peek() is None else self._heap[0][0]

    def remove(self, request: Request) -> None:
        """Let a request go, wherever it stands."""
        del self._pushes[request.request_id]

    def __contains__(self, request: Request) -> bool:
        return request.request_id in self._pushes

    def __len__(self) -> int:
        return len(self._pushes)

    def _holds(self, entry: tuple[Key, int, Request]) -> bool:
        return self._pushes.get(entry[2].request_id) == entry[1]
