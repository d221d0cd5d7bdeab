"""What tenants have taken of their rates: an answer takes when it is asked for, and is settled as it ends.

An answer is one request, however many prompts and outputs it has. It takes the tokens of its prompts, each
once, and of every output the most that it may generate. Given back are: what was not generated; all tokens of
a part that was never scheduled; and the request too, where the engine refused it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace_engine.core.contract import Contract
from headrace_engine.core.plan import Finished, Rejection, Scheduled
from headrace_engine.core.rates import Allowance, Rates
from headrace_engine.core.request import Request
from headrace_engine.telemetry.report import StepReport


@dataclass(slots=True)
class _Open:
    """One output that has not ended."""

    tenant: str
    requests: int
    """1 for the first of its answer."""
    prompt_tokens: int
    most_output_tokens: int
    replicas: int
    """Among which the rate was divided when it was taken from."""
    was_scheduled: bool = False

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.most_output_tokens


class Metering:
    """Lives on the event loop. What it remembers is bounded by what is in flight."""

    def __init__(self, clock: Callable[[], float], replicas: int = 1) -> None:
        self._clock = clock
        self._replicas = replicas
        self._rates = Rates()
        self._open: dict[str, _Open] = {}

    def take(self, contract: Contract, requests: Sequence[Request]) -> Rejection | None:
        """Let the outputs of one answer through, or say why not and take nothing."""
        tenant = requests[0].tenant
        if not contract.of(tenant).has_rates:
            return None
        opened = {
            request.request_id: _Open(
                tenant,
                requests=int(number == 0),
                prompt_tokens=0 if request.leader else len(request.prompt_token_ids),
                most_output_tokens=request.max_tokens,
                replicas=contract.replicas,
            )
            for number, request in enumerate(requests)
        }
        tokens = sum(part.tokens for part in opened.values())
        refused = self._rates.take(contract, tenant, tokens, self._clock())
        if refused is None:
            self._open |= opened
        return refused

    def agree(self, before: Contract, after: Contract) -> None:
        """Other terms hold from now on."""
        self._rates.agree(before, after, self._clock())
        self._replicas = after.replicas

    def observe(self, report: StepReport) -> None:
        """Settle what has ended."""
        if not self._open:
            return
        for request, _ in report.rejected:
            if (part := self._open.pop(request.request_id, None)) is not None:
                self._give_back(part, requests=part.requests, tokens=part.tokens)
        for event in report.events:
            if isinstance(event, Scheduled) and event.request_id in self._open:
                self._open[event.request_id].was_scheduled = True
            elif isinstance(event, Finished):
                self._end(event)

    def headers(self, contract: Contract, tenant: str) -> dict[str, str]:
        """OpenAI's, for each rate that a tenant has: what this engine lets through."""
        told: dict[str, str] = {}
        for allowance in self._rates.allowances(contract, tenant, self._clock()):
            told |= _told(allowance)
        return told

    def _end(self, event: Finished) -> None:
        if (part := self._open.pop(event.request_id, None)) is not None:
            used = part.prompt_tokens + event.output_tokens if part.was_scheduled else 0
            self._give_back(part, tokens=max(0, part.tokens - used))

    def _give_back(self, part: _Open, *, requests: int = 0, tokens: int = 0) -> None:
        """As much of it as it is now: a replica more has made less of what was taken."""
        now = part.replicas / self._replicas
        self._rates.settle(part.tenant, requests=now * requests, tokens=now * tokens)


def _told(allowance: Allowance) -> dict[str, str]:
    of = allowance.of.value
    return {
        f"x-ratelimit-limit-{of}": str(math.floor(allowance.per_minute)),
        f"x-ratelimit-remaining-{of}": str(math.floor(allowance.remaining)),
        f"x-ratelimit-reset-{of}": _span(allowance.reset_s),
    }


def _span(seconds: float) -> str:
    """As OpenAI writes it: `12ms`, `7.66s`, `2m59.56s`."""
    if seconds < 1:
        return f"{math.ceil(1000 * seconds)}ms"
    minutes, rest_ms = divmod(math.ceil(1000 * seconds), 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest_ms / 1000:g}s"
