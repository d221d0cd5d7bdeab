"""Fair shares between tenants: `fair`.

The tenant that was served least, by its weight, is next; within a tenant another policy decides. If its head
does not fit, everybody waits for it: skipping would starve large requests. A tenant that comes back starts at
the least of those who wait, so it cannot bank credit while idle. For two tenants that both always wait, what
they were served differs by at most 2 * max(input * longest prompt, output * most tokens decoded at once), by
weight.
"""

import heapq

from headrace_engine.core.policy import Policy, PolicyFactory
from headrace_engine.core.request import Request
from headrace_engine.core.tenants import Tenants


class FairShare:
    """One policy for each tenant that waits; the least served tenant is next."""

    def __init__(self, tenants: Tenants, within: PolicyFactory) -> None:
        self._tenants = tenants
        self._within = within
        self._waiting: dict[str, Policy] = {}
        self._heap: list[tuple[float, str]] = []
        """Who waits, by the service last seen. It only grows, so correcting the head is enough."""
        self._num_waiting = 0

    def push(self, request: Request, now_s: float) -> None:
        tenant = request.tenant
        if tenant not in self._waiting:
            self._tenants.comes_back(tenant, self._least_served())
            self._waiting[tenant] = self._within()
            heapq.heappush(self._heap, (self._tenants.service(tenant), tenant))
        self._waiting[tenant].push(request, now_s)
        self._num_waiting += 1

    def peek(self, now_s: float) -> Request | None:
        tenant = self._least_served()
        return None if tenant is None else self._waiting[tenant].peek(now_s)

    def remove(self, request: Request) -> None:
        policy = self._waiting[request.tenant]
        policy.remove(request)
        self._num_waiting -= 1
        if len(policy) == 0:
            del self._waiting[request.tenant]
            self._tenants.leaves(request.tenant)

    def outranks(self, request: Request, other: Request) -> bool:  # noqa: ARG002
        return False

    def __len__(self) -> int:
        return self._num_waiting

    def _least_served(self) -> str | None:
        while self._heap:
            seen, tenant = self._heap[0]
            service = self._tenants.service(tenant)
            if tenant in self._waiting and seen == service:
                return tenant
            heapq.heappop(self._heap)
            if tenant in self._waiting:
                heapq.heappush(self._heap, (service, tenant))
        return None
