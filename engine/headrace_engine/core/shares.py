"""What tenants are owed of the tokens that an engine computes, whoever goes before them: `min_share`.

    owed = share * (computed - due)        both in tokens of the whole engine, each position counted once

A tenant that waits is owed its share of all that is computed. What it is given moves `due` up: what a request
is expected to take when it is admitted, and the rest as it comes. Nothing is owed to who does not wait, and
what exceeds the share is held against it up to one longest sequence: neither is saved up.

So of T tokens that are computed while it waits it gets share * T at least, less a number of longest sequences
that does not grow with T: those that run, one for each tenant with a share, and two.
"""

from collections.abc import Mapping

from headrace_engine.core.least_served import LeastServed
from headrace_engine.core.request import Request

_OUTPUT_MEMORY = 4
"""About so many answers tell how long a tenant's next one will be."""


class Shares:
    """Who is owed how much. Each operation costs the logarithm of the tenants with a share that wait."""

    def __init__(self) -> None:
        self.of: Mapping[str, float] = {}
        """The shares, above 0. Another object once they have changed."""
        self.longest_tokens = 0
        """The longest sequence that the engine serves. Set by the scheduler."""
        self.computed_tokens = 0
        self._due: dict[str, float] = {}
        self._output_tokens: dict[str, float] = {}
        """What an answer lately had, by tenant."""
        self._waiting = LeastServed(self._due.__getitem__)

    def agree(self, shares: Mapping[str, float]) -> None:
        """Let other shares hold. What was had beyond one still counts; nobody is owed anything yet."""
        if shares == self.of:
            return
        now = self.computed_tokens
        self._due = {tenant: now - min(0.0, self.owed(tenant)) / share for tenant, share in shares.items()}
        known = self._output_tokens
        self._output_tokens = {tenant: known[tenant] for tenant in shares if tenant in known}
        self.of = shares
        self.nobody_waits()

    def nobody_waits(self) -> None:
        """Who waits is told anew."""
        self._waiting = LeastServed(self._due.__getitem__)

    def waits(self, tenant: str) -> None:
        """A tenant with a share begins to wait."""
        self._due[tenant] = max(self._due[tenant], self.computed_tokens)
        self._waiting.put(tenant)

    def rests(self, tenant: str) -> None:
        """A tenant waits no more."""
        self._waiting.drop(tenant)

    def owed(self, tenant: str) -> float:
        """In tokens; 0 for who has no share, and below it for who had more."""
        share = self.of.get(tenant)
        return 0.0 if share is None else share * (self.computed_tokens - self._due[tenant])

    def first(self) -> str | None:
        """Of the tenants that wait and are owed something, the one that has been for longest."""
        tenant = self._waiting.least()
        return None if tenant is None or self._due[tenant] >= self.computed_tokens else tenant

    def grant(self, request: Request) -> None:
        """A request is admitted: its tenant is given what it is expected to take."""
        tenant = request.tenant
        if tenant not in self.of:
            return
        request.by_share = self.owed(tenant) > 0.0
        prompt_tokens = len(request.prompt_token_ids)
        most_output = request.token_limit - prompt_tokens
        end = prompt_tokens + min(most_output, self._output_tokens.get(tenant, most_output))
        start = max(request.computed_tokens, request.charged_tokens)
        request.promised_tokens = self._give(tenant, max(0.0, end - start))

    def computed(self, request: Request, tokens: int) -> None:
        """Tokens of a request are computed that never were before."""
        self.computed_tokens += tokens
        if request.tenant in self.of:
            promised = min(tokens, request.promised_tokens)
            request.promised_tokens -= promised
            self._give(request.tenant, tokens - promised)

    def withdraw(self, request: Request) -> None:
        """A request runs no more: what it was promised is owed again."""
        promised, request.promised_tokens, request.by_share = request.promised_tokens, 0.0, False
        if not promised or (share := self.of.get(request.tenant)) is None:
            return
        self._due[request.tenant] -= promised / share
        if request.tenant in self._waiting:
            self._waiting.drop(request.tenant)
            self._waiting.put(request.tenant)

    def learn(self, request: Request) -> None:
        """A request has ended: the next of its tenant is expected to be like it."""
        if request.tenant in self.of:
            latest = float(len(request.output_token_ids))
            known = self._output_tokens.get(request.tenant, latest)
            self._output_tokens[request.tenant] = known + (latest - known) / _OUTPUT_MEMORY

    def _give(self, tenant: str, tokens: float) -> float:
        """How much of it counts against the share: not what is beyond one longest sequence."""
        share, before = self.of[tenant], self._due[tenant]
        most = max(before, self.computed_tokens + self.longest_tokens / share)
        self._due[tenant] = min(before + tokens / share, most)
        return share * (self._due[tenant] - before)
