"""First-token deadlines: the most urgent first, among those that can still make it.

`EarliestDeadline` orders by the latest moment at which a prefill must begin, at the rate measured. `Feasible`
puts aside whoever is past it: serving a lost cause first would lose the next one too. Those put aside are not
starved: they are served when nobody else waits, and at least one in `RELEGATED_SHARE` admissions is theirs.
"""

from headrace_engine.core.policy import FirstComeFirstServed, Policy, Ranked
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.request import Request, Status

RELEGATED_SHARE = 20
PATIENCE_S = 30.0
"""A request without a deadline is ordered as if it had one this long after its arrival, but is never late."""


def latest_start_s(request: Request, prefill_tokens_per_s: float) -> float:
    """When the prefill of a request must begin for its first token to be in time."""
    deadline_s = request.first_token_deadline_s
    if deadline_s is None:
        deadline_s = request.arrival_s + PATIENCE_S
    return deadline_s - len(request.prompt_token_ids) / prefill_tokens_per_s


class EarliestDeadline(Ranked):
    """By latest start."""

    def __init__(self, rate: PrefillRate) -> None:
        super().__init__()
        self._rate = rate

    def rank(self, request: Request) -> float:
        return latest_start_s(request, self._rate.tokens_per_s)


class Feasible:
    """Another policy's order for those that can still make their deadline; by arrival for the rest."""

    def __init__(self, within: Policy, rate: PrefillRate) -> None:
        self._within = within
        self._relegated = FirstComeFirstServed()
        self._relegated_ids: set[str] = set()
        self._rate = rate
        self._passes = 0
        """Admissions since one of the relegated was admitted."""

    def push(self, request: Request, now_s: float) -> None:
        self._within.push(request, now_s)

    def peek(self, now_s: float) -> Request | None:
        while (head := self._within.peek(now_s)) is not None and self._is_late(head, now_s):
            self._within.remove(head)
            self._relegated.push(head, now_s)
            self._relegated_ids.add(head.request_id)
        relegated = self._relegated.peek(now_s)
        if head is None or (relegated is not None and self._passes >= RELEGATED_SHARE - 1):
            return relegated
        return head

    def remove(self, request: Request) -> None:
        if request.request_id in self._relegated_ids:
            self._relegated_ids.remove(request.request_id)
            self._relegated.remove(request)
            self._passes = 0
        else:
            self._within.remove(request)
            self._passes += bool(self._relegated_ids)

    def precedes(self, request: Request, other: Request) -> bool:
        return request.request_id not in self._relegated_ids and self._within.precedes(request, other)

    def outranks(self, request: Request, other: Request) -> bool:
        return request.request_id not in self._relegated_ids and self._within.outranks(request, other)

    def yields(self, request: Request, now_s: float) -> bool:
        return self._within.yields(request, now_s)

    def __len__(self) -> int:
        return len(self._within) + len(self._relegated)

    def _is_late(self, request: Request, now_s: float) -> bool:
        if request.status is Status.PREEMPTED or request.first_token_deadline_s is None:
            return False
        return latest_start_s(request, self._rate.tokens_per_s) < now_s
