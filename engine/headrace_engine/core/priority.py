"""Priority classes that age: `priority`.

A request of class p stands where one of class 0 would that came p * `age_s` later. So within `age_s` a better
class always goes first, and the bound on starvation is stated: nobody of class p waits behind a class-0
request that came more than p * `age_s` after it.

The classes are those of `nice`: 0 for everybody, down to -20 for those who may, and 19 for what can wait.
So few that looking at the head of each costs little, however requests spread over them.
"""

from headrace_engine.core.policy import Policy, PolicyFactory
from headrace_engine.core.request import Request

BEST_PRIORITY, WORST_PRIORITY = -20, 19


class PriorityClasses:
    """One policy for each class; the class whose head has the earliest aged arrival is next."""

    def __init__(self, within: PolicyFactory, age_s: float = 30.0) -> None:
        self._within = within
        self._age_s = age_s
        self._classes: dict[int, Policy] = {}
        self._nobody = within()
        """What decides within a class of which nobody waits."""
        self._num_waiting = 0

    def push(self, request: Request, now_s: float) -> None:
        if request.priority not in self._classes:
            self._classes[request.priority] = self._within()
        self._classes[request.priority].push(request, now_s)
        self._num_waiting += 1

    def peek(self, now_s: float) -> Request | None:
        heads = [head for policy in self._classes.values() if (head := policy.peek(now_s)) is not None]
        return min(heads, key=self._aged_arrival, default=None)

    def remove(self, request: Request) -> None:
        self._classes[request.priority].remove(request)
        self._num_waiting -= 1
        if len(self._classes[request.priority]) == 0:
            del self._classes[request.priority]

    def precedes(self, request: Request, other: Request) -> bool:
        """A strictly better class, unless the other has aged past it; within a class, as it decides."""
        if request.priority == other.priority:
            return self._of(request).precedes(request, other)
        better = request.priority < other.priority
        return better and self._aged_arrival(request) < self._aged_arrival(other)

    def outranks(self, request: Request, other: Request) -> bool:
        if request.priority == other.priority:
            return self._of(request).outranks(request, other)
        return self.precedes(request, other)

    def yields(self, request: Request, now_s: float) -> bool:
        return self._of(request).yields(request, now_s)

    def __len__(self) -> int:
        return self._num_waiting

    def _of(self, request: Request) -> Policy:
        return self._classes.get(request.priority, self._nobody)

    def _aged_arrival(self, request: Request) -> tuple[float, int]:
        return request.arrival_s + request.priority * self._age_s, request.priority
