"""What one turn of the step loop did, as plain data.

The loop's thread makes one report a turn; the server's thread records it and wakes the streams in one go.
All counts of a scrape therefore come from the same turn: received = finished + rejected + aborted + in
flight, always.
"""

from dataclasses import dataclass

from headrace_engine.core.limits import Limits
from headrace_engine.core.plan import Event, Hold, Plan, Rejection
from headrace_engine.core.request import Request
from headrace_engine.core.snapshot import Snapshot
from headrace_engine.core.step_model import NO_WORK, StepWork


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the model."""

    num_prefill_tokens: int
    num_decode_tokens: int
    duration_s: float
    """From the plan to its commit, on the loop's clock."""
    num_seqs: int = 0
    context_tokens: int = 0
    """Tokens whose KV the step's attention read."""
    work: StepWork = NO_WORK
    holds: tuple[Hold, ...] = ()
    """Why those who waited were not admitted."""

    @classmethod
    def of(cls, plan: Plan, duration_s: float) -> "Step":
        """A plan that was computed."""
        return cls(
            plan.num_prefill_tokens,
            plan.num_decode_tokens,
            duration_s,
            num_seqs=len(plan.rows),
            context_tokens=plan.context_tokens,
            work=plan.work,
            holds=plan.holds,
        )

    @property
    def num_tokens(self) -> int:
        return self.num_prefill_tokens + self.num_decode_tokens


@dataclass(frozen=True, slots=True)
class StepReport:
    """One turn: arrivals drained from the inbox, the step if there was work, the events, and where things
    stand.
    """

    now_s: float
    """When the events happened, on the loop's monotonic clock."""
    accepted: tuple[Request, ...]
    rejected: tuple[tuple[Request, Rejection], ...]
    events: tuple[Event, ...]
    step: Step | None
    limits: Limits
    snapshot: Snapshot
