"""Short prompts first, with age: `shortest`.

A prompt stands as if it had come `token_s` later for each of its tokens: nobody waits behind a shorter prompt
that came more than that difference after it.
"""

from headrace_engine.core.heap import RequestHeap
from headrace_engine.core.request import Request, Status


class ShortestFirst:
    """By arrival, put off by the length of the prompt; the resumed first."""

    def __init__(self, token_s: float = 0.001) -> None:
        self._token_s = token_s
        self._heap = RequestHeap()

    def push(self, request: Request, now_s: float) -> None:  # noqa: ARG002 - its age is its arrival
        resumed = request.status is Status.PREEMPTED
        put_off_s = 0.0 if resumed else len(request.prompt_token_ids) * self._token_s
        self._heap.push(request, (not resumed, request.arrival_s + put_off_s))

    def peek(self, now_s: float) -> Request | None:  # noqa: ARG002
        return self._heap.peek()

    def remove(self, request: Request) -> None:
        self._heap.remove(request)

    def outranks(self, request: Request, other: Request) -> bool:  # noqa: ARG002
        return False

    def __len__(self) -> int:
        return len(self._heap)
