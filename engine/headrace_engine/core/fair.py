"""Fair shares between tenants: `fair`.

The tenant that was served least, by its weight, is next; within a tenant another policy decides. If its head
does not fit, everybody waits for it: skipping would starve large requests. For two tenants that both always
wait, what they were served differs by at most 2 * max(input * longest prompt, output * most tokens decoded at
once), by weight.

Who asks now and then falls behind those that never stop, by a burst at most (`tenants`). A tenant that is
behind another by a sixteenth of that need not wait for it: its prompts are computed first; the other's add
little to a step (`step.YIELDING_SHARE`), also while it is away, so that no step is long when it comes; and it
takes blocks from the other, and slots as long as it runs fewer, or all that it runs leaves it behind.
"""

from headrace_engine.core.least_served import LeastServed
from headrace_engine.core.policy import Policy, PolicyFactory
from headrace_engine.core.request import Request
from headrace_engine.core.tenants import Tenants

BEHIND_RATIO = 1 / 16
"""Of a burst: more than tenants that are served in turn differ by."""


class FairShare:
    """One policy for each tenant that waits; the least served tenant is next."""

    def __init__(self, tenants: Tenants, within: PolicyFactory) -> None:
        self._tenants = tenants
        self._within = within
        self._waiting: dict[str, Policy] = {}
        self._least_waiting = LeastServed(tenants.counted)
        self._num_waiting = 0

    def push(self, request: Request, now_s: float) -> None:
        tenant = request.tenant
        if tenant not in self._waiting:
            self._waiting[tenant] = self._within()
            self._least_waiting.put(tenant)
        self._waiting[tenant].push(request, now_s)
        self._num_waiting += 1

    def peek(self, now_s: float) -> Request | None:
        tenant = self._least_waiting.least()
        if tenant is None:
            return None
        self._tenants.choose(tenant)
        return self._waiting[tenant].peek(now_s)

    def remove(self, request: Request) -> None:
        policy = self._waiting[request.tenant]
        policy.remove(request)
        self._num_waiting -= 1
        if len(policy) == 0:
            del self._waiting[request.tenant]
            self._least_waiting.drop(request.tenant)

    def precedes(self, request: Request, other: Request) -> bool:
        return self._is_behind(self._tenants.service(request.tenant), other)

    def outranks(self, request: Request, other: Request) -> bool:
        """Who is far behind preempts, as long as it then runs no more than the other, by their weights, or
        would still be behind were all that it runs, if alike, charged at its longest.
        """
        if request.tenant == other.tenant or not self.precedes(request, other):
            return False
        tenants = self._tenants
        num_running = tenants.running[request.tenant] + 1
        runs = num_running / tenants.contract.of(request.tenant).weight
        if runs <= (tenants.running[other.tenant] - 1) / tenants.contract.of(other.tenant).weight:
            return True
        owed = tenants.service(request.tenant) + num_running * tenants.most_charged(request)
        return owed < tenants.service(other.tenant)

    def yields(self, request: Request, now_s: float) -> bool:
        return self._is_behind(self._tenants.least_around(now_s), request)

    def __len__(self) -> int:
        return self._num_waiting

    def _is_behind(self, service: float, other: Request) -> bool:
        margin = BEHIND_RATIO * self._tenants.burst
        return service + margin < self._tenants.service(other.tenant)
