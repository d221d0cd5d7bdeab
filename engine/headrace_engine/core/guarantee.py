"""Another policy's order, but for tenants with a share of their own: who of them is owed something is next.

Whatever classes, tenants or deadlines stand before it. Its own requests keep the order of the policy among
themselves. What it was admitted with in this way is not put off or preempted for a better class: it would
have to be given again. Who is owed more than a longest sequence takes slots and blocks from those that run
on no share of their own; until then it waits for one that ends.
"""

from headrace_engine.core.policy import Policy, PolicyFactory
from headrace_engine.core.request import Request
from headrace_engine.core.shares import Shares


class Guaranteed:
    """`within` orders all requests; those of a tenant with a share stand in a line of their own besides."""

    def __init__(self, within: Policy, own: PolicyFactory, shares: Shares) -> None:
        self._within = within
        self._own = own
        self._shares = shares
        self._shared = shares.of
        """The shares that the lines are made by."""
        self._lines: dict[str, Policy] = {}
        """By tenant, where one waits."""
        self._waiting: dict[str, Request] = {}

    def push(self, request: Request, now_s: float) -> None:
        self._heed(now_s)
        self._within.push(request, now_s)
        self._waiting[request.request_id] = request
        if request.tenant in self._shared:
            self._line_up(request, now_s)

    def peek(self, now_s: float) -> Request | None:
        self._heed(now_s)
        if self._lines and (tenant := self._shares.first()) is not None:
            return self._lines[tenant].peek(now_s)
        return self._within.peek(now_s)

    def remove(self, request: Request) -> None:
        self._within.remove(request)
        del self._waiting[request.request_id]
        if request.tenant in self._lines:
            line = self._lines[request.tenant]
            line.remove(request)
            if len(line) == 0:
                del self._lines[request.tenant]
                if self._shared is self._shares.of:
                    self._shares.rests(request.tenant)

    def precedes(self, request: Request, other: Request) -> bool:
        if not self._shared:
            return self._within.precedes(request, other)
        if other.by_share:
            return False
        return self._goes_first(request) or self._within.precedes(request, other)

    def outranks(self, request: Request, other: Request) -> bool:
        if not self._shared:
            return self._within.outranks(request, other)
        if other.by_share:
            return False
        is_far_behind = self._owed(request) > self._shares.longest_tokens
        if is_far_behind and request.tenant != other.tenant:
            return True
        return self._within.outranks(request, other)

    def yields(self, request: Request, now_s: float) -> bool:
        return not self._goes_first(request) and self._within.yields(request, now_s)

    def __len__(self) -> int:
        return len(self._within)

    def _goes_first(self, request: Request) -> bool:
        return request.by_share or self._owed(request) > 0.0

    def _owed(self, request: Request) -> float:
        """What its tenant is owed: nothing where all that it asked for runs."""
        return self._shares.owed(request.tenant) if request.tenant in self._lines else 0.0

    def _line_up(self, request: Request, now_s: float) -> None:
        if request.tenant not in self._lines:
            self._lines[request.tenant] = self._own()
            self._shares.waits(request.tenant)
        self._lines[request.tenant].push(request, now_s)

    def _heed(self, now_s: float) -> None:
        """Make the lines anew where the shares have changed."""
        if self._shared is self._shares.of:
            return
        self._lines.clear()
        self._shared = self._shares.of
        for request in self._waiting.values():
            if request.tenant in self._shared:
                self._line_up(request, now_s)
