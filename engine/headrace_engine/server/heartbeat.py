"""Tells a stuck loop from a busy one, from memory alone.

The loop's thread writes, the server's thread reads; each field is one reference, so no lock is needed. A
loop without work is healthy for ever; one with work must finish a step within `stalled_after_s`: long enough
for the slowest of the latest steps, many times over, and for the first large one of a slow machine.
"""

from collections import deque
from collections.abc import Callable

LEAST_STALL_S = 60.0
STALL_FACTOR = 20.0
STALL_TOKEN_S = 0.25
"""For each token of the step under way: fewer than four tokens a second are no service."""
STEPS_REMEMBERED = 128


class Heartbeat:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting_since_s: float | None = None
        self._durations_s: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._slowest_s = 0.0
        self._planned_tokens = 0

    def beat(self, *, has_work: bool) -> None:
        """A turn begins. Turning is no progress: with work, only a finished step is."""
        if not has_work:
            self._waiting_since_s = None
        elif self._waiting_since_s is None:
            self._waiting_since_s = self._clock()

    def planned(self, num_tokens: int) -> None:
        """A step of so many tokens is under way."""
        self._planned_tokens = num_tokens

    def stepped(self, duration_s: float) -> None:
        self._durations_s.append(duration_s)
        self._slowest_s = max(self._durations_s)
        self._waiting_since_s = self._clock()

    @property
    def stalled_after_s(self) -> float:
        return max(LEAST_STALL_S, STALL_FACTOR * self._slowest_s, STALL_TOKEN_S * self._planned_tokens)

    def stalled(self) -> bool:
        waiting_since_s = self._waiting_since_s
        return waiting_since_s is not None and self._clock() - waiting_since_s > self.stalled_after_s
