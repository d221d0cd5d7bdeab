"""Queue deadlines: which requests were not scheduled in time."""

from headrace_engine.core.heap import RequestHeap
from headrace_engine.core.request import Request


class QueueDeadlines:
    """The newcomers that have a queue deadline."""

    def __init__(self) -> None:
        self._heap = RequestHeap()

    def watch(self, request: Request) -> None:
        """Watch a request, if it has a queue deadline."""
        if request.queue_deadline_s is not None:
            self._heap.push(request, (request.queue_deadline_s,))

    def forget(self, request: Request) -> None:
        """Watch a request no more: it was scheduled, or it ended."""
        if request in self._heap:
            self._heap.remove(request)

    def expired(self, now_s: float) -> list[Request]:
        """Those whose deadline has come, earliest first; each is given once."""
        late: list[Request] = []
        while (least := self._heap.least_key()) is not None and least[0] <= now_s:
            request = self._heap.peek()
            assert request is not None
            self._heap.remove(request)
            late.append(request)
        return late
