"""What one request came to: its times, its tokens, its outcome.

Times are seconds on the client's monotonic clock. What was not seen is None, never zero.
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import fmean


class Outcome(StrEnum):
    """How a request ended. Each request ends in exactly one of these."""

    OK = "ok"
    REJECTED = "rejected"
    """Refused before any work: 429, or 503 from a server that drains or is not ready."""
    BROKEN = "broken"
    """The answer had begun and did not end as it should: no finish reason, no `[DONE]`, a lost connection, or
    an error event after the first token."""
    FAILED = "failed"
    """Any other error before the first token."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request, from its first send to its end.

    `token_times_s` holds the arrival of each chunk that carried text (tokens bundled in one chunk count
    once). An answer that ends without any text has the arrival of its finish reason there: the
    end-of-sequence token.
    """

    index: int
    due_s: float
    """When the workload wanted it sent; later than this is the client's own lag."""
    sent_s: float
    ended_s: float
    outcome: Outcome
    detail: str = ""
    status: int | None = None
    token_times_s: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    """From the usage chunk; None where the server sent none."""
    finish_reason: str | None = None
    attempts: int = 1
    text: str = ""

    @property
    def ttft_s(self) -> float | None:
        """First token minus first send; a retry after 429 is part of the wait."""
        return self.token_times_s[0] - self.sent_s if self.token_times_s else None

    @property
    def itls_s(self) -> tuple[float, ...]:
        """The gaps between successive chunks; empty when there was one chunk or none."""
        return tuple(later - earlier for earlier, later in pairwise(self.token_times_s))

    @property
    def e2el_s(self) -> float | None:
        """Last event minus send, for an answer that ended as it should."""
        return self.ended_s - self.sent_s if self.outcome is Outcome.OK else None

    @property
    def tpot_s(self) -> float | None:
        """Mean seconds for each output token after the first; None for one token or an unknown count."""
        if self.ttft_s is None or self.e2el_s is None or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.e2el_s - self.ttft_s) / (self.output_tokens - 1)

    @property
    def itl_mean_s(self) -> float | None:
        """The request's own mean gap: its TPOT, or the mean of its chunks' gaps where no usage was sent."""
        if self.output_tokens is not None:
            return self.tpot_s
        return fmean(self.itls_s) if self.itls_s else None
