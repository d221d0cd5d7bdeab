"""What each tenant was served: virtual tokens, charged where work is scheduled.

    service += (input * computed prompt tokens + cached * found ones + output * generated tokens) / weight

after the virtual token counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024), with
two changes: prompts are charged chunk by chunk, so an aborted one pays for what it took; and positions are
charged once, so the recomputation after a preemption, which no tenant asked for, costs nobody.
"""

from dataclasses import dataclass

from headrace_engine.core.contract import Contract
from headrace_engine.core.request import Request


@dataclass(frozen=True, slots=True)
class Prices:
    """Virtual tokens for a token of each kind."""

    input: float = 1.0
    cached: float = 0.1
    output: float = 2.0


class Tenants:
    """The service of every tenant, as far as it matters, and its terms."""

    _MOST_REMEMBERED = 4096

    def __init__(self, contract: Contract | None = None, *, prices: Prices | None = None) -> None:
        self.contract = contract or Contract()
        """What holds for work scheduled from now on."""
        self._prices = prices or Prices()
        self._service: dict[str, float] = {}
        self._last_waiting: str | None = None

    def service(self, tenant: str) -> float:
        """Virtual tokens served to a tenant, by its weight."""
        return self._service.get(tenant, 0.0)

    def comes_back(self, tenant: str, least_waiting: str | None) -> None:
        """A tenant begins to wait: it starts at the least of those who do, or at the last who did.

        Idleness is no credit; and whoever was served less than that may be forgotten, which keeps the map
        small.
        """
        level = least_waiting or self._last_waiting
        floor = 0.0 if level is None else self.service(level)
        if len(self._service) >= self._MOST_REMEMBERED:
            self._service = {name: served for name, served in self._service.items() if served >= floor}
        self._service[tenant] = max(self.service(tenant), floor)

    def leaves(self, tenant: str) -> None:
        """A tenant waits no more."""
        self._last_waiting = tenant

    def charge(self, request: Request, end: int) -> None:
        """Charge a request's positions up to `end` that were not charged before."""
        start = request.charged_tokens
        if end <= start:
            return
        prompt_tokens, found = len(request.prompt_token_ids), request.cached_tokens
        cached = max(0, min(end, found) - start)
        prompt = max(0, min(end, prompt_tokens) - max(start, found))
        output = end - max(start, prompt_tokens) if end > prompt_tokens else 0
        prices = self._prices
        weight = self.contract.of(request.tenant).weight
        cost = prices.cached * cached + prices.input * prompt + prices.output * output
        self._service[request.tenant] = self.service(request.tenant) + cost / weight
        request.charged_tokens = end
