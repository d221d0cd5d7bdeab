"""Rates of tenants: requests and tokens a minute, by a bucket of each (GCRA: what was taken, and when).

A bucket holds a minute's worth, and what was taken flows back at the rate. So in any w minutes at most
(1 + w) * rate is let through, and over a long time the rate. What alone is more than a bucket holds is let
through when it is full, and the tenant then waits until that has flowed back: nothing is too large for ever.

A request takes its prompt and the most that it may generate; `settle` gives back what it did not use. The
clock is an argument. Whose buckets are full needs no memory, and gets none.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from headrace_engine.core.contract import Contract
from headrace_engine.core.plan import Rejection

MINUTE_S = 60.0
_ROUNDING = 1e-6
"""Of a request or a token: who comes back when told is not refused for the last bit of a float."""


class Metered(StrEnum):
    """What a rate is of."""

    REQUESTS = "requests"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What this engine lets a tenant have of one rate, and how much of it is left now."""

    of: Metered
    per_minute: float
    remaining: float
    reset_s: float
    """Until all of it is there again, if nothing more is taken."""


@dataclass(slots=True)
class _Bucket:
    taken: float
    at_s: float

    def drain(self, per_minute: float, now_s: float) -> float:
        """What is still taken at this time."""
        self.taken = max(0.0, self.taken - per_minute * max(0.0, now_s - self.at_s) / MINUTE_S)
        self.at_s = max(self.at_s, now_s)
        return self.taken


class Rates:
    """What each tenant has taken of its rates. A tenant without a rate costs nothing."""

    _LEAST_SWEPT = 1024

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, Metered], _Bucket] = {}
        self._sweep_at = self._LEAST_SWEPT

    def take(self, contract: Contract, tenant: str, tokens: int, now_s: float) -> Rejection | None:
        """Take one request with so many tokens, or say why not and take nothing."""
        wanted = {Metered.REQUESTS: 1, Metered.TOKENS: tokens}
        rates = _rates(contract, tenant)
        waits_s = {of: self._wait_s(tenant, of, rate, wanted[of], now_s) for of, rate in rates.items()}
        slowest = max(waits_s, key=lambda of: waits_s[of], default=None)
        if slowest is not None and waits_s[slowest] > 0.0:
            return _refusal(contract, tenant, slowest, waits_s[slowest])
        for of in rates:
            self._buckets[tenant, of].taken += wanted[of]
        if len(self._buckets) > self._sweep_at:
            self._sweep(contract, now_s)
        return None

    def agree(self, before: Contract, after: Contract, now_s: float) -> None:
        """Other rates hold from now on: until now, what was taken flowed back at those of `before`.

        A tenant that spreads its calls has taken as much of every replica: of more of them, less of each. So
        a bucket stays as full as it was.
        """
        for (tenant, of), bucket in self._buckets.items():
            if (rate := _rates(before, tenant).get(of)) is not None:
                bucket.drain(rate, now_s)
            bucket.taken *= before.replicas / after.replicas

    def settle(self, tenant: str, *, requests: float = 0, tokens: float = 0) -> None:
        """Give back what was taken and not used."""
        for of, unused in ((Metered.REQUESTS, requests), (Metered.TOKENS, tokens)):
            if (bucket := self._buckets.get((tenant, of))) is not None:
                bucket.taken = max(0.0, bucket.taken - unused)

    def allowances(self, contract: Contract, tenant: str, now_s: float) -> list[Allowance]:
        """One for each rate that a tenant has."""
        found = []
        for of, rate in _rates(contract, tenant).items():
            bucket = self._buckets.get((tenant, of))
            taken = 0.0 if bucket is None else bucket.drain(rate, now_s)
            found.append(Allowance(of, rate, max(0.0, rate - taken), taken * MINUTE_S / rate))
        return found

    def __len__(self) -> int:
        return len(self._buckets)

    def _wait_s(self, tenant: str, of: Metered, rate: float, wanted: int, now_s: float) -> float:
        """How long until so much is there: exact, if nobody takes anything meanwhile."""
        bucket = self._buckets.setdefault((tenant, of), _Bucket(0.0, now_s))
        missing = bucket.drain(rate, now_s) + min(wanted, rate) - rate
        return missing * MINUTE_S / rate if missing > _ROUNDING else 0.0

    def _sweep(self, contract: Contract, now_s: float) -> None:
        """Forget full buckets, and those of rates that are no more."""
        rates = {tenant: _rates(contract, tenant) for tenant, _ in self._buckets}
        self._buckets = {
            (tenant, of): bucket
            for (tenant, of), bucket in self._buckets.items()
            if of in rates[tenant] and bucket.drain(rates[tenant][of], now_s)
        }
        self._sweep_at = max(self._LEAST_SWEPT, 2 * len(self._buckets))


def _rates(contract: Contract, tenant: str) -> dict[Metered, float]:
    terms = contract.of(tenant)
    declared = {Metered.REQUESTS: terms.requests_per_minute, Metered.TOKENS: terms.tokens_per_minute}
    return {of: contract.part_of(rate) for of, rate in declared.items() if rate is not None}


def _refusal(contract: Contract, tenant: str, of: Metered, wait_s: float) -> Rejection:
    terms = contract.of(tenant)
    rate = terms.requests_per_minute if of is Metered.REQUESTS else terms.tokens_per_minute
    of_all = f", over {contract.replicas} replicas" if contract.replicas > 1 else ""
    seconds = math.ceil(10 * wait_s) / 10
    message = f"This tenant may have {rate} {of} a minute{of_all}. Try again in {seconds:.12g} seconds."
    return Rejection(f"tenant_{of}_per_minute", message, wait_s, is_exact=True)
