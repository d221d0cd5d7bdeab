"""The waiting line: a policy's order, in which a head that a constraint of its own holds back may be passed.

Budget, slots and blocks hold back everybody, so their head is waited for. A step key holds back only those
with another key: up to `MAX_ASIDE` of them stand aside while others are admitted, `MAX_PASSES` at most before
the oldest of them. Then nobody passes any more until it was admitted, so it is delayed and not starved.
Whoever outranks one that stands aside never waited for it: it goes first, and is no pass.

A tenant's own cap holds back that tenant alone, and as many as may be of its requests are parked, by class
and arrival. For each of its requests that ends one comes back into the policy's order. So while some are
parked, those that run or stand in the order are as many as the cap at least: none is forgotten.

Who shares the prompt of another follows it: it comes into the policy's order once that one has computed the
prompt, or has ended, and finds it in the cache.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from headrace_engine.core.heap import RequestHeap
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
        self._parked: dict[str, RequestHeap] = {}
        """By tenant."""
        self._followers: dict[str, dict[str, Request]] = {}
        """By leader."""
        self._num_following = 0
        self._returning: dict[str, Request] = {}
        """Parked or following no more, and back in the policy's order when it is next asked."""
        self._num_parked = 0

    def push(self, request: Request, now_s: float) -> None:
        """Take a request in, at its place in the policy's order."""
        self._policy.push(request, now_s)

    def candidates(self, now_s: float) -> Iterator[Request]:
        """Those to try, in order. Each is removed or set aside before the next is asked for."""
        self._bring_back(now_s)
        for aside in list(self._aside.values()):
            while (head := self._policy.peek(now_s)) is not None and self._policy.outranks(head, aside):
                yield head
            yield aside
        while (head := self._policy.peek(now_s)) is not None:
            yield head

    def foremost(self, now_s: float, fits: Callable[[Request], bool]) -> Request | None:
        """The first to be tried of those that no constraint of their own holds back."""
        self._bring_back(now_s)
        head = self._policy.peek(now_s)
        for aside in self._aside.values():
            if head is not None and self._policy.outranks(head, aside):
                break
            if fits(aside):
                return aside
            if self._passes >= MAX_PASSES:
                return None
        return head if head is not None and fits(head) else None

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

    def park(self, request: Request) -> None:
        """Let others pass a candidate until `unpark` was called for its tenant."""
        self.remove(request)
        if request.tenant not in self._parked:
            self._parked[request.tenant] = RequestHeap()
        newcomer = request.status is not Status.PREEMPTED
        self._parked[request.tenant].push(request, (newcomer, request.priority, request.arrival_s))
        self._num_parked += 1

    def unpark(self, tenant: str) -> None:
        """One of a tenant's requests has ended: the first of those that are parked may be tried again."""
        parked = self._parked.get(tenant)
        if parked is not None and (request := parked.peek()) is not None:
            self._take_parked(request)
            self._returning[request.request_id] = request

    def unpark_all(self) -> None:
        """The tenants' caps have changed: whoever is parked may be tried again."""
        for tenant in list(self._parked):
            while tenant in self._parked:
                self.unpark(tenant)

    def follow(self, request: Request) -> None:
        """Take a request in that waits for its leader."""
        self._followers.setdefault(request.leader, {})[request.request_id] = request
        self._num_following += 1

    def lead(self, request_id: str) -> None:
        """Nobody has to wait for this request any more: its followers may be tried."""
        if (followers := self._followers.pop(request_id, None)) is not None:
            self._num_following -= len(followers)
            self._returning.update(followers)

    def admit(self, request: Request) -> None:
        """Let a candidate go that was admitted."""
        oldest = next(iter(self._aside.values()), request)
        if request is not oldest and not self._policy.outranks(request, oldest):
            self._passes += 1
        self.remove(request)

    def remove(self, request: Request) -> None:
        """Let a request go that waits no more."""
        if request in self._parked.get(request.tenant, ()):
            self._take_parked(request)
            return
        if self._returning.pop(request.request_id, None) is not None:
            return
        if self._followers.get(request.leader, {}).pop(request.request_id, None) is not None:
            self._num_following -= 1
            return
        if request.request_id not in self._aside:
            self._policy.remove(request)
            return
        if request is next(iter(self._aside.values())):
            self._passes = 0
        del self._aside[request.request_id]

    def next_before(self, other: Request, now_s: float) -> Request | None:
        """The head of the policy's order, if its prompt precedes that of one that runs."""
        head = self._policy.peek(now_s)
        return head if head is not None and self._policy.precedes(head, other) else None

    @property
    def precedes(self) -> Callable[[Request, Request], bool]:
        """Whether the policy lets the prompt of the first be computed before that of the second."""
        return self._policy.precedes

    @property
    def yields(self) -> Callable[[Request, float], bool]:
        """Whether the policy lets the prompt of a request add little to a step."""
        return self._policy.yields

    @property
    def outranks(self) -> Callable[[Request, Request], bool]:
        """Whether the policy lets a running request, the second, be preempted in favour of the first."""
        return self._policy.outranks

    def replace(self, policy: Policy, waiting: Sequence[Request], now_s: float) -> None:
        """Order all that wait by another policy from now on. Whoever follows another still does."""
        self._aside.clear()
        self._passes = 0
        self._parked.clear()
        self._returning.clear()
        self._num_parked = 0
        self._policy = policy
        for request in waiting:
            if request.request_id not in self._followers.get(request.leader, {}):
                policy.push(request, now_s)

    def __len__(self) -> int:
        held = self._num_parked + self._num_following + len(self._returning)
        return len(self._policy) + len(self._aside) + held

    def _bring_back(self, now_s: float) -> None:
        for request in self._returning.values():
            self._policy.push(request, now_s)
        self._returning.clear()

    def _take_parked(self, request: Request) -> None:
        parked = self._parked[request.tenant]
        parked.remove(request)
        self._num_parked -= 1
        if not len(parked):
            del self._parked[request.tenant]
