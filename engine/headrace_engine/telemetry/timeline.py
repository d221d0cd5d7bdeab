"""When what happened to one request, on the loop's monotonic clock."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace_engine.core.request import Request


@dataclass(slots=True)
class Timeline:
    """Grows with the events of its request; whoever is told of its end may keep it, nobody changes it."""

    request: Request
    first_scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float = 0.0
    num_tokens: int = 0
    """Generated, a stop id included."""
    cached_tokens: int = 0
    preempted_s: list[float] = field(default_factory=list)
    ended_s: float = 0.0
    outcome: str = ""
    """A finish reason, or the reason of a rejection."""

    @property
    def arrival_s(self) -> float:
        return self.request.arrival_s

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.request.prompt_token_ids)

    def mean_itl_s(self) -> float:
        if self.first_token_s is None or self.num_tokens < 2:
            return 0.0
        return (self.last_token_s - self.first_token_s) / (self.num_tokens - 1)


TimelineEnded = Callable[[Timeline], None]
"""Told once of every request that ended or was refused."""
