"""Queue deadlines: which requests were not scheduled in time.

A heap by deadline. Entries of requests that left the queue otherwise are dropped when they surface, or all at
once when they outnumber the others, so a push costs O(log n) and the heap stays within a constant of what
waits.
"""

import heapq

from headrace_engine.core.request import Request, Status


class QueueDeadlines:
    """The deadlines of requests that were never scheduled."""

    _LEAST_PRUNED = 64

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Request]] = []
        self._pushed = 0
        self._prune_at = self._LEAST_PRUNED

    def push(self, request: Request) -> None:
        """Watch a request, if it has a queue deadline."""
        if request.queue_deadline_s is None:
            return
        if len(self._heap) >= self._prune_at:
            self._heap = [entry for entry in self._heap if entry[2].status is Status.WAITING]
            heapq.heapify(self._heap)
            self._prune_at = max(self._LEAST_PRUNED, 2 * len(self._heap))
        self._pushed += 1
        heapq.heappush(self._heap, (request.queue_deadline_s, self._pushed, request))

    def expired(self, now_s: float) -> list[Request]:
        """Those still waiting at their deadline, earliest first; each is given once."""
        late: list[Request] = []
        while self._heap and self._heap[0][0] <= now_s:
            request = heapq.heappop(self._heap)[2]
            if request.status is Status.WAITING:
                late.append(request)
        return late
