"""What a client asks for, and where it stands.

A request has no phase: it has tokens, a count of those already computed (their KV is in blocks) and a status.
Every step moves the computed count towards the number of tokens; that one rule covers chunked prefill,
decode, prefix hits and resumption after preemption. Only `Scheduler` changes a request.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headrace_engine.core.past import Past
from headrace_engine.core.sampling import PLAIN, Sampling


class Status(StrEnum):
    """Where a request stands. `FINISHED` is the only terminal status, and every other leads to it.

    waiting ──> (loading) ──> running ──> finished
                    └─> preempted <─┘             a preempted one runs again, and loads no more
    """

    WAITING = "waiting"
    LOADING = "loading"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class FinishReason(StrEnum):
    """Why a request ended; each request ends exactly once."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    EXPIRED = "expired"
    ERROR = "error"


@dataclass(slots=True)
class Request:
    """One sequence to generate.

    `prompt_token_ids` is fixed; `output_token_ids` grows by commit. `computed_tokens` counts the tokens whose
    KV stands in `block_table`. Times are seconds on the caller's monotonic clock.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    """0 computes the prompt and samples nothing."""
    arrival_s: float
    sampling: Sampling = PLAIN
    stop_token_ids: frozenset[int] = frozenset()
    """Ids that end the request when generated (end-of-sequence included, unless the client ignores it)."""
    min_tokens: int = 0
    priority: int = 0
    """Its class, of -20 to 19: lower is served first, as in vLLM."""
    takes_tenants_priority: bool = False
    """Its client names no class: it gets the one that its tenant's terms say when it is submitted."""
    tenant: str = ""
    queue_deadline_s: float | None = None
    """Not scheduled by then: the request expires."""
    first_token_deadline_s: float | None = None
    """First token wanted by then: a matter of order alone."""
    leader: str = ""
    """The request whose prompt this one shares: it waits until that one has computed it, or ended."""
    group: str = ""
    """Requests of one answer: taken in together or not at all, and in time once one of them was scheduled.
    Empty: it is alone.
    """
    block_salt: bytes = b""
    """Requests share cached blocks only with equal salts (`prefix.block_salt`)."""
    step_key: str = ""
    """What only so many of can run together, such as an adapter. Empty: none."""
    remote_tokens: int = 0
    """Leading tokens whose KV can be brought from elsewhere instead of being computed."""
    load_timeout_s: float = 10.0
    """Brought within this time, or computed here after all."""
    lease_s: float = 0.0
    """How long its blocks stay pinned for others to fetch after it ended by itself; 0: not at all."""

    status: Status = Status.WAITING
    output_token_ids: list[int] = field(default_factory=list)
    past: Past | None = None
    """Prompt and output for the sampler, where something steers it. Set at submission."""
    scored_tokens: int = 0
    """Leading prompt tokens whose successors' log probabilities were told."""
    token_limit: int = 0
    """Prompt and output together end here: `max_tokens`, the model's length or the pool's. Set at submission.
    """
    computed_tokens: int = 0
    block_table: list[int] = field(default_factory=list)
    block_digests: list[bytes] = field(default_factory=list)
    """The hash chain of the full blocks looked at so far."""
    charged_tokens: int = 0
    """Positions that its tenant was charged for."""
    by_share: bool = False
    """Whether it runs because its tenant was owed it (`shares`)."""
    promised_tokens: float = 0.0
    """What its tenant's share was debited for it in advance, and it has not computed yet."""
    load_until_s: float | None = None
    """The deadline of its one load; None if there was none."""
    cached_tokens: int = 0
    first_scheduled_s: float | None = None
    preemptions: int = 0
    finish_reason: FinishReason | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and output so far; the computed count moves towards this."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    @property
    def most_tokens(self) -> int:
        """Tokens whose KV the request can ever need: the last sampled one is never computed."""
        return max(len(self.prompt_token_ids), self.token_limit - 1)

    @property
    def sparable_tokens(self) -> int:
        """Leading tokens that need not be computed if their KV is there: not the last known one, which is
        sampled after, and none whose successor is still to be scored.
        """
        is_scored = self.sampling.prompt_logprobs is None or not self.unscored_tokens
        return self.total_tokens - 1 if is_scored else self.scored_tokens

    @property
    def unscored_tokens(self) -> int:
        """Prompt tokens, the last left out, whose successors' log probabilities were not told."""
        return len(self.prompt_token_ids) - 1 - self.scored_tokens

    @property
    def loadable_tokens(self) -> int:
        """Leading tokens that a load may bring: none of a prompt that is scored here."""
        is_scored = self.sampling.prompt_logprobs is not None
        return 0 if is_scored else min(self.remote_tokens, self.total_tokens - 1)

    @property
    def pending_tokens(self) -> int:
        """Tokens known but not yet computed: 1 for a decode, more for a prefill or a resumption."""
        return self.total_tokens - self.computed_tokens

    def take(self, token_ids: Sequence[int]) -> None:
        """Append new output."""
        self.output_token_ids += token_ids
        if self.past is not None:
            self.past.extend(token_ids)

    def tokens(self, start: int, stop: int) -> list[int]:
        """The token ids of positions [start, stop)."""
        prompt_length = len(self.prompt_token_ids)
        if start >= prompt_length:
            return self.output_token_ids[start - prompt_length : stop - prompt_length]
        return [*self.prompt_token_ids[start:stop], *self.output_token_ids[: max(0, stop - prompt_length)]]
