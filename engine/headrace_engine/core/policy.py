"""The order in which waiting requests are admitted. A new order is a new class, never a branch in the
scheduler.

Orders compose: classes, tenants and feasibility each divide the waiting requests and leave the order within a
part to another policy.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from headrace_engine.core.heap import RequestHeap
from headrace_engine.core.request import Request, Status


class Policy(Protocol):
    """The waiting requests, in order. Each method costs the same however many wait, or their logarithm.

    A request whose status is `PREEMPTED` is being resumed: it comes before newcomers of equal rank, because
    its client is already reading.
    """

    def push(self, request: Request, now_s: float) -> None:
        """Take a request in."""
        ...

    def peek(self, now_s: float) -> Request | None:
        """Who is next; None if nobody waits. Nobody passes it, so a large request is not starved."""
        ...

    def remove(self, request: Request) -> None:
        """Let a request go: it was admitted, or it ended while it waited."""
        ...

    def precedes(self, request: Request, other: Request) -> bool:
        """Whether the prompt of `request` is computed before that of `other`, which was admitted earlier."""
        ...

    def outranks(self, request: Request, other: Request) -> bool:
        """Whether a running `other` may be preempted in favour of `request`, for a slot or for blocks."""
        ...

    def yields(self, request: Request, now_s: float) -> bool:
        """Whether the prompt of a request leaves most of a step to those who precede it, there or to come."""
        ...

    def __len__(self) -> int: ...


PolicyFactory = Callable[[], Policy]


class Ranked(ABC):
    """By a rank of the request's own, fixed when it begins to wait; the resumed first, by arrival."""

    def __init__(self) -> None:
        self._heap = RequestHeap()

    @abstractmethod
    def rank(self, request: Request) -> float:
        """Least first; of equals, who came first."""

    def push(self, request: Request, now_s: float) -> None:  # noqa: ARG002 - the rank does not depend on time
        newcomer = request.status is not Status.PREEMPTED
        rank = self.rank(request) if newcomer else request.arrival_s
        self._heap.push(request, (newcomer, rank, request.arrival_s))

    def peek(self, now_s: float) -> Request | None:  # noqa: ARG002
        return self._heap.peek()

    def remove(self, request: Request) -> None:
        self._heap.remove(request)

    def precedes(self, request: Request, other: Request) -> bool:  # noqa: ARG002
        return False

    def outranks(self, request: Request, other: Request) -> bool:  # noqa: ARG002
        return False

    def yields(self, request: Request, now_s: float) -> bool:  # noqa: ARG002
        return False

    def __len__(self) -> int:
        return len(self._heap)


class FirstComeFirstServed(Ranked):
    """`fcfs`: by arrival."""

    def rank(self, request: Request) -> float:
        return request.arrival_s
