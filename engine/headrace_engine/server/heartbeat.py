"""Tells a stuck loop from a busy one, from memory alone.

A loop without work is healthy for ever; one with work must finish a step within `stalled_after_s`: long
enough for the slowest of the latest steps, many times over, and for the first large one of a slow machine.
The loop keeps a `Heartbeat`; what that says goes to HTTP once a second, whose `Pulses` notice silence too.
"""

from collections import deque
from collections.abc import Callable

LEAST_STALL_S = 60.0
STALL_FACTOR = 20.0
STALL_TOKEN_S = 0.25
"""For each token of the step under way: fewer than four tokens a second are no service."""
STEPS_REMEMBERED = 128


class Heartbeat:
    """The loop's thread writes, another reads; each field is one reference, so no lock is needed."""

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
    def waiting_since_s(self) -> float | None:
        """Since when a step is waited for; None without work."""
        return self._waiting_since_s

    @property
    def stalled_after_s(self) -> float:
        return max(LEAST_STALL_S, STALL_FACTOR * self._slowest_s, STALL_TOKEN_S * self._planned_tokens)


class Pulses:
    """What HTTP knows of the loop, which is in another thread or process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard_s = clock()
        self._waiting_since_s: float | None = None
        self._stalled_after_s = LEAST_STALL_S

    def heard(self) -> None:
        """Something came: whoever sent it runs."""
        self._heard_s = self._clock()

    def pulse(self, waiting_since_s: float | None, stalled_after_s: float) -> None:
        """What the heartbeat says, on the same clock."""
        self._waiting_since_s, self._stalled_after_s = waiting_since_s, stalled_after_s

    def stalled(self) -> bool:
        """A step takes too long, or nothing at all is heard."""
        since_s = (
            self._heard_s if self._waiting_since_s is None else min(self._heard_s, self._waiting_since_s)
        )
        return self._clock() - since_s > self._stalled_after_s
