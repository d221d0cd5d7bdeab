"""What each tenant was served: virtual tokens, charged where work is scheduled.

    service += (input * computed prompt tokens + cached * found ones + output * generated tokens) / weight

after the virtual token counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024), with
three changes: prompts are charged chunk by chunk, so an aborted one pays for what it took; positions are
charged once, so the recomputation after a preemption, which no tenant asked for, costs nobody; and a tenant
that comes back starts at its own count or at `burst` below the level of those who wait, whichever is more.
So idle time is never saved up: an hour of it is worth no more than a burst.
"""

import heapq
import math
from collections import Counter, OrderedDict
from dataclasses import dataclass
from operator import itemgetter

from headrace_engine.core.contract import Contract
from headrace_engine.core.least_served import LeastServed
from headrace_engine.core.request import Request
from headrace_engine.core.shares import Shares


@dataclass(frozen=True, slots=True)
class Prices:
    """Virtual tokens for a token of each kind."""

    input: float = 1.0
    cached: float = 0.1
    output: float = 2.0


class Tenants:
    """The service of every tenant, as far as it matters, and its terms."""

    _MOST_REMEMBERED = 4096
    AROUND_S = 300.0
    """How long after its last arrival a tenant is reckoned with."""

    def __init__(self, contract: Contract | None = None, *, prices: Prices | None = None) -> None:
        self.shares = Shares()
        """What tenants are owed."""
        self.contract = contract or Contract()
        self.running: Counter[str] = Counter()
        """How many requests of each tenant run."""
        self._prices = prices or Prices()
        self._service: dict[str, float] = {}
        self._level = 0.0
        """What those who wait were served at least, when one of them was last chosen. It only rises."""
        self._around: OrderedDict[str, float] = OrderedDict()
        """Who asked lately, with the time, the earliest first."""
        self._least_around = LeastServed(self.counted)

    @property
    def contract(self) -> Contract:
        """What holds for work scheduled from now on."""
        return self._contract

    @contract.setter
    def contract(self, contract: Contract) -> None:
        self._contract = contract
        self.shares.agree(contract.shares)

    @property
    def longest_tokens(self) -> int:
        """The longest sequence that the engine serves. Set by the scheduler."""
        return self.shares.longest_tokens

    @longest_tokens.setter
    def longest_tokens(self, tokens: int) -> None:
        self.shares.longest_tokens = tokens

    @property
    def burst(self) -> float:
        """The most that a tenant may have been served less than the level: one longest sequence, at its
        dearest.
        """
        return self._prices.output * self.longest_tokens

    def service(self, tenant: str) -> float:
        """Virtual tokens served to a tenant, by its weight. Who is not remembered stands at the floor."""
        service = self._service.get(tenant)
        return max(0.0, self._level - self.burst) if service is None else service

    def counted(self, tenant: str) -> float:
        """The same, but 0 for who is not remembered: it stays where it is while the floor rises."""
        return self._service.get(tenant, 0.0)

    def arrives(self, tenant: str, now_s: float) -> None:
        """A tenant asks for something."""
        floor = max(0.0, self._level - self.burst)
        self._service[tenant] = max(self._service.get(tenant, floor), floor)
        if len(self._service) > 2 * self._MOST_REMEMBERED:
            self._forget(floor)
        if tenant not in self._around:
            self._least_around.put(tenant)
        self._around[tenant] = now_s
        self._around.move_to_end(tenant)

    def least_around(self, now_s: float) -> float:
        """What the least served was served, of those who have asked lately."""
        while self._around and next(iter(self._around.values())) < now_s - self.AROUND_S:
            self._least_around.drop(self._around.popitem(last=False)[0])
        tenant = self._least_around.least()
        return math.inf if tenant is None else max(self.service(tenant), self._level - self.burst)

    def choose(self, tenant: str) -> None:
        """The least served of those who wait is next: nobody comes back far below it."""
        self._level = max(self._level, self.service(tenant))

    def start_over(self) -> None:
        """Nobody was served anything: what is ordered anew does not pay for the past."""
        self._service.clear()
        self._level = 0.0
        self.shares.nobody_waits()
        self._least_around = LeastServed(self.counted)
        for tenant in self._around:
            self._least_around.put(tenant)

    def charge(self, request: Request, end: int) -> None:
        """Charge a request's positions up to `end` that were not charged before.

        From the floor on, as for who comes back: a tenant that its own cap held back has saved nothing up.
        """
        start = request.charged_tokens
        if end <= start:
            return
        prompt_tokens, found = len(request.prompt_token_ids), request.cached_tokens
        cached = max(0, min(end, found) - start)
        prompt = max(0, min(end, prompt_tokens) - max(start, found))
        output = end - max(start, prompt_tokens) if end > prompt_tokens else 0
        prices = self._prices
        weight = self._contract.of(request.tenant).weight
        cost = prices.cached * cached + prices.input * prompt + prices.output * output
        served = max(self.service(request.tenant), self._level - self.burst)
        self._service[request.tenant] = served + cost / weight
        self.shares.computed(request, prompt + output)
        request.charged_tokens = end

    def most_charged(self, request: Request) -> float:
        """What a request is charged, by its tenant's weight, if nothing of it is found and it ends at its
        longest.
        """
        prompt_tokens = len(request.prompt_token_ids)
        output_tokens = max(0, request.token_limit - prompt_tokens)
        cost = self._prices.input * prompt_tokens + self._prices.output * output_tokens
        return cost / self.contract.of(request.tenant).weight

    def _forget(self, floor: float) -> None:
        """Keep those above the floor, where the others will start anyway, and not too many of them."""
        kept = {tenant: service for tenant, service in self._service.items() if service > floor}
        self._service = dict(heapq.nlargest(self._MOST_REMEMBERED, kept.items(), key=itemgetter(1)))
