"""Queue deadlines: which requests were not scheduled in time. A group is in time with the first of it."""

from headrace_engine.core.heap import RequestHeap
from headrace_engine.core.request import Request


class QueueDeadlines:
    """The newcomers that have a queue deadline."""

    def __init__(self) -> None:
        self._heap = RequestHeap()
        self._groups: dict[str, dict[str, Request]] = {}

    def watch(self, request: Request) -> None:
        """Watch a request, if it has a queue deadline."""
        if request.queue_deadline_s is not None:
            self._heap.push(request, (request.queue_deadline_s,))
            if request.group:
                self._groups.setdefault(request.group, {})[request.request_id] = request

    def met(self, request: Request) -> None:
        """A request was scheduled: neither it nor one of its group is watched any more."""
        self.forget(request)
        for other in list(self._groups.get(request.group, {}).values()):
            self.forget(other)

    def forget(self, request: Request) -> None:
        """Watch a request no more: it ended."""
        if request not in self._heap:
            return
        self._heap.remove(request)
        if (group := self._groups.get(request.group)) is not None:
            del group[request.request_id]
            if not group:
                del self._groups[request.group]

    def expired(self, now_s: float) -> list[Request]:
        """Those whose deadline has come, earliest first; each is given once."""
        late: list[Request] = []
        while (least := self._heap.least_key()) is not None and least[0] <= now_s:
            request = self._heap.peek()
            assert request is not None
            self.forget(request)
            late.append(request)
        return late
