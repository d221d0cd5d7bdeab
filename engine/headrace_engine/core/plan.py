"""One step, as plain data: what the scheduler plans, what the runner answers, what the client is told.

`Scheduler.schedule(now_s)` returns a `Plan`; the runner computes its rows and answers with an `Outcome`;
`Scheduler.commit(plan, outcome, now_s)` applies both and returns the events. Only commit moves
a request forward.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple, cast

from headrace_engine.core.past import Past
from headrace_engine.core.request import FinishReason
from headrace_engine.core.sampling import Sampling, TokenLogprobs
from headrace_engine.core.step_model import NO_WORK, StepWork


class Scoring(NamedTuple):
    """Prompt tokens of a row whose successors' log probabilities are wanted."""

    offset: int
    """The first of them, in the row."""
    successors: Sequence[int]
    """The prompt's own next tokens, one for each."""


RowFields = tuple[str, int, Sequence[int], Sequence[int], int, Sampling, Past | None, Scoring | None]


class Row(NamedTuple):
    """The tokens of one request that one step computes.

    `token_ids` stand at positions `start`, `start + 1`, ... Their KV goes into `block_table` (position p into
    slot `p % block_size` of block `block_table[p // block_size]`), which already holds room for them and is
    not changed until the step is committed.

    The last `sampled_rows` tokens are sampled after: none where the chunk does not reach the last known token
    (or nothing is wanted), else one, and one more for each draft. Drafts are the last tokens of a row;
    sampling stops after the first that differs from what was sampled before it, so a row yields 1 to
    `sampled_rows` tokens.
    """

    request_id: str
    start: int
    token_ids: Sequence[int]
    block_table: Sequence[int]
    sampled_rows: int
    sampling: Sampling
    past: Past | None = None
    """What was said before, drafts left out; for those whose sampling is steered."""
    scoring: Scoring | None = None


new_row = cast("Callable[[RowFields], Row]", partial(tuple.__new__, Row))
"""A row of its fields, as `Row(*fields)` makes it, at half the cost: a step makes one for each sequence."""


class Load(NamedTuple):
    """KV to bring from elsewhere into the blocks of a request, for positions [start, end).

    Bring it between two steps, and only while the request is loading; then call `Scheduler.loaded`.
    """

    request_id: str
    block_table: Sequence[int]
    start: int
    end: int


class Hold(StrEnum):
    """Why a step did not admit a request that waits."""

    BUDGET = "budget"
    """Tokens or milliseconds of the step are used up."""
    SLOTS = "slots"
    PARTIAL = "partial"
    """As many prefills as may be are under way."""
    BLOCKS = "blocks"
    KEYS = "keys"
    """As many step keys as may be are running, and the head has another."""
    PREEMPTION = "preemption"
    """Somebody has just lost its blocks."""
    YIELD = "yield"
    """The head leaves the rest of the step to those who precede it, there or to come."""
    TENANT = "tenant"
    """As many requests of its tenant run as may; others pass."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: the rows to compute, in order. An empty plan is no error; there is nothing to do."""

    step_id: int
    rows: tuple[Row, ...]
    preempted: tuple[str, ...] = ()
    """Requests that lost their blocks in favour of these rows; they wait for recomputation."""
    num_prefill_tokens: int = 0
    num_decode_tokens: int = 0
    num_draft_tokens: int = 0
    """Those of the decode tokens that are guesses."""
    context_tokens: int = 0
    """Tokens whose KV the step's attention reads: the sum of every row's end position."""
    work: StepWork = NO_WORK
    """What the time of the step depends on."""
    loads: tuple[Load, ...] = ()
    """KV that newly admitted requests wait for; they have no row."""
    budget_tokens: int = 0
    """The token budget that this step was planned within."""
    holds: tuple[Hold, ...] = ()
    """Why those who were looked at were not admitted, in order: some that others passed, and the one that
    everybody waits for. Empty if nobody is left waiting.
    """

    @property
    def hold(self) -> Hold | None:
        """What held back the first of them."""
        return self.holds[0] if self.holds else None

    @property
    def num_tokens(self) -> int:
        return self.num_prefill_tokens + self.num_decode_tokens


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the runner computed: 1 to `sampled_rows` ids of each row that samples, and the time it took."""

    sampled: Mapping[str, Sequence[int]]
    duration_s: float
    logprobs: Mapping[str, Sequence[TokenLogprobs]] = field(default_factory=dict)
    """One for each sampled id of the rows that want them."""
    prompt_logprobs: Mapping[str, Sequence[TokenLogprobs]] = field(default_factory=dict)
    """One for each of a row's `scoring.successors`; none of a row whose scores are no numbers."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A request left the queue for the first time."""

    request_id: str
    queue_time_s: float
    cached_tokens: int
    by_share: bool = False
    """Because its tenant was owed it."""


@dataclass(frozen=True, slots=True)
class Preempted:
    """A running request lost its blocks and will be recomputed."""

    request_id: str
    lost_tokens: int


class Tokens(NamedTuple):
    """New output of a request. A stop id is no output: it stands in `Finished.stop_token_id` alone."""

    request_id: str
    token_ids: Sequence[int]
    logprobs: Sequence[TokenLogprobs] | None = None
    """One a token, for those that want them."""


TokensFields = tuple[str, Sequence[int], Sequence[TokenLogprobs] | None]
new_tokens = cast("Callable[[TokensFields], Tokens]", partial(tuple.__new__, Tokens))
"""Like `new_row`."""


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """How likely the next tokens of a prompt were; the first of all are those of its second token."""

    request_id: str
    logprobs: Sequence[TokenLogprobs]


@dataclass(frozen=True, slots=True)
class Finished:
    """The one terminal event of an accepted request, and its last; the counts are the request's usage."""

    request_id: str
    reason: FinishReason
    stop_token_id: int | None = None
    message: str | None = None
    stop_logprobs: TokenLogprobs | None = None
    """Of the stop id, for those that want them."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    """Generated tokens, a stop id included."""
    cached_tokens: int = 0
    """Prompt tokens that the prefix cache spared."""


Event = Scheduled | Preempted | PromptLogprobs | Tokens | Finished


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a request was not accepted. It never entered the engine, so it has no terminal event."""

    reason: str
    """`never_fits`, `invalid`, `invalid_priority`, `duplicate_id` (400), `queue_full_requests`,
    `queue_full_tokens`, `tenant_queue_full_requests`, `tenant_queue_full_tokens`,
    `tenant_requests_per_minute`, `tenant_tokens_per_minute` (429), `draining` (503).
    """
    message: str
    retry_after_s: float | None = None
    is_exact: bool = False
    """Whether it is taken after that time, if nothing else is: an estimate is spread among those who wait."""
