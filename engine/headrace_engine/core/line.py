"""The waiting line: a policy's order, in which a head that a constraint of its own holds back may be passed.

Budget, slots and blocks hold back everybody, so their head is waited for. A step key holds back only those
with another key: up to `MAX_ASIDE` of them stand aside while others are admitted, `MAX_PASSES` at most before
the oldest of them. Then nobody passes any more until it was admitted, so it is delayed and not starved.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from headrace_engine.core.policy import Policy
from headrace_engine.core.request import Request, Status

MAX_ASIDE = 8
MAX_PASSES = 64


class Line:
    """Waiting requests, in the order in which they are tried."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._aside: OrderedDict[str, Request] = OrderedDict()
        self._passes = 0

    def push(self, request: Request, now_s: float) -> None:
        """Take a request in, at its place in the policy's order."""
        self._policy.push(request, now_s)

    def candidates(self, now_s: float) -> Iterator[Request]:
        """Those to try, in order. Each is removed or set aside before the next is asked for."""
        yield from list(self._aside.values())
        while (head := self._policy.peek(now_s)) is not None:
            yield head

    def set_aside(self, request: Request) -> bool:
        """Let others pass a candidate that its own constraint holds back; False if they may not."""
        if self._passes >= MAX_PASSES:
            return False
        if request.request_id not in self._aside:
            if len(self._aside) >= MAX_ASIDE:
                return False
            self._policy.remove(request)
            self._aside[request.request_id] = request
        return True

    def admit(self, request: Request) -> None:
        """Let a candidate go that was admitted."""
        if self._aside and request is not next(iter(self._aside.values())):
            self._passes += 1
        self.remove(request)

    def remove(self, request: Request) -> None:
        """Let a request go that waits no more."""
        if request.request_id not in self._aside:
            self._policy.remove(request)
            return
        if request is next(iter(self._aside.values())):
            self._passes = 0
        del self._aside[request.request_id]

    @property
    def outranks(self) -> Callable[[Request, Request], bool]:
        """Whether the policy lets a running request, the second, be preempted in favour of the first."""
        return self._policy.outranks

    def replace(self, policy: Policy, waiting: Sequence[Request], now_s: float) -> None:
        """Order all that wait, given by arrival, by another policy from now on."""
        self._aside.clear()
        self._passes = 0
        self._policy = policy
        resumed = [request for request in waiting if request.status is Status.PREEMPTED]
        for request in waiting:
            if request.status is Status.WAITING:
                policy.push(request, now_s)
        for request in reversed(resumed):
            policy.push(request, now_s)

    def __len__(self) -> int:
        return len(self._policy) + len(self._aside)
