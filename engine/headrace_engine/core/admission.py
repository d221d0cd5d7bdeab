"""The bounded queue: which requests are taken in, and when a refused client should come back.

Counted are newcomers, those accepted and not yet scheduled for the first time; a preempted request was
admitted before and never counts against them. A newcomer that finds a free slot and no backlog does not
queue, so the bounds do not apply to it: a bound of 0 means "serve at once or refuse". Nor do they to the
requests of one answer that find nobody running: none is so large that it would be refused for ever. A prompt
that outputs share counts once. Counts are exact; the step loop's thread owns them.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Sequence

from headrace_engine.core.contract import Terms
from headrace_engine.core.drain_rate import DrainRate
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Rejection
from headrace_engine.core.priority import WORST_PRIORITY
from headrace_engine.core.request import Request


def most_total_tokens(capacity: Capacity) -> int:
    """The longest sequence: the model's, or what the whole pool holds and one sampled token more."""
    return min(capacity.max_model_len, capacity.num_blocks * capacity.block_size + 1)


def misfit(request: Request, capacity: Capacity) -> Rejection | None:
    """Why an engine of this size can never serve a request; None if it can."""
    prompt_tokens, most = len(request.prompt_token_ids), most_total_tokens(capacity)
    pool_tokens = capacity.num_blocks * capacity.block_size
    if not prompt_tokens:
        return Rejection("invalid", "The prompt is empty. Send at least one token.")
    if request.max_tokens < 0:
        return Rejection("invalid", "max_tokens must not be negative.")
    if prompt_tokens + min(request.max_tokens, 1) > most or prompt_tokens > pool_tokens:
        return Rejection(
            "never_fits",
            f"The prompt has {prompt_tokens} tokens, and prompt and output together may have {most}. "
            f"Shorten the prompt.",
        )
    return None


def presumption(request: Request, terms: Terms) -> Rejection | None:
    """Why a tenant may not have the class that its request names; None if it may."""
    best = terms.best_class
    if best <= request.priority <= WORST_PRIORITY:
        return None
    return Rejection(
        "invalid_priority",
        f"priority takes {best} to {WORST_PRIORITY} from this tenant, the lowest being served first. "
        f"Leave it out for {terms.priority}.",
    )


def _tokens(request: Request) -> int:
    return 0 if request.leader else len(request.prompt_token_ids)


class Admission:
    """Newcomers and the rate at which they are scheduled."""

    RETRY_AFTER_S = (1.0, 60.0)
    """Least and most seconds that a client is asked to stay away."""

    def __init__(self) -> None:
        self._newcomers: OrderedDict[str, Request] = OrderedDict()
        self._drain_rate = DrainRate()
        self._last_step_s = -math.inf
        self._backlogged = False
        self._left_requests = 0
        self._left_tokens = 0
        self._requests_of: Counter[str] = Counter()
        self._tokens_of: Counter[str] = Counter()
        """By tenant."""
        self.waiting_tokens = 0
        """Prompt tokens of all newcomers."""

    @property
    def num_newcomers(self) -> int:
        return len(self._newcomers)

    def refuse(
        self, requests: Sequence[Request], limits: Limits, terms: Terms, free_slots: int, *, alone: bool
    ) -> Rejection | None:
        """Why the queue does not take these requests of one tenant; None if it takes them all.

        The tenant's own bounds come first: a tenant that fills them leaves the queue to the others.
        `free_slots` are those that both the engine and the tenant have left; `alone` is who finds nobody
        running.
        """
        tenant, tokens, num = requests[0].tenant, sum(map(_tokens, requests)), len(requests)
        served_at_once = 0 if self._backlogged else max(0, free_slots)
        if not self._newcomers and served_at_once >= (1 if alone else num):
            return None
        queued = len(self._newcomers) - served_at_once
        queued_of_tenant = self._requests_of[tenant] - served_at_once
        bounds = (
            ("tenant_queue_full_requests", queued_of_tenant + num, terms.max_num_queued_reqs),
            ("tenant_queue_full_tokens", self._tokens_of[tenant] + tokens, terms.max_num_queued_tokens),
            ("queue_full_requests", queued + num, limits.max_num_queued_reqs),
            ("queue_full_tokens", self.waiting_tokens + tokens, limits.max_num_queued_tokens),
        )
        for reason, wanted, most in bounds:
            if most is not None and wanted > most:
                return self._full(reason, most)
        return None

    def enter(self, request: Request) -> None:
        """Count a newcomer that was accepted."""
        self._newcomers[request.request_id] = request
        self._count(request, 1)

    def leave(self, request: Request, *, scheduled: bool) -> None:
        """Stop counting a newcomer: it was scheduled, or it ended first. Others are ignored."""
        if self._newcomers.pop(request.request_id, None) is None:
            return
        self._count(request, -1)
        if scheduled:
            self._left_requests += 1
            self._left_tokens += _tokens(request)
        elif not self._newcomers:
            self._backlogged = False

    def step(self, now_s: float) -> None:
        """Measure the drain: a step has just been planned."""
        if self._backlogged:
            self._drain_rate.observe(now_s - self._last_step_s, self._left_requests, self._left_tokens)
        self._left_requests = self._left_tokens = 0
        self._backlogged, self._last_step_s = bool(self._newcomers), now_s

    def oldest_age_s(self, now_s: float) -> float | None:
        """How long the oldest newcomer has waited; None if none waits."""
        oldest = next(iter(self._newcomers.values()), None)
        return None if oldest is None else now_s - oldest.arrival_s

    def _count(self, request: Request, change: int) -> None:
        tokens = change * _tokens(request)
        self.waiting_tokens += tokens
        self._requests_of[request.tenant] += change
        self._tokens_of[request.tenant] += tokens
        if not self._requests_of[request.tenant]:
            del self._requests_of[request.tenant], self._tokens_of[request.tenant]

    def _full(self, reason: str, most: int) -> Rejection:
        least_s, most_s = self.RETRY_AFTER_S
        drain_s = self._drain_rate.drain_time_s(len(self._newcomers), self.waiting_tokens)
        whose = "of this tenant " if reason.startswith("tenant") else ""
        bound = "max_num_queued_reqs" if reason.endswith("requests") else "max_num_queued_tokens"
        message = f"The queue is full: {bound} {whose}is {most}. Try again after the time given."
        return Rejection(reason, message, least_s if drain_s is None else min(max(drain_s, least_s), most_s))
