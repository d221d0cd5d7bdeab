"""How fast prompts are computed, measured: what tells whether a first token can still be in time."""

import math

MOST_S = 1.0
"""Of a step: a tenth of what is remembered."""


class PrefillRate:
    """Prompt tokens computed per second of the steps that were full of them, with exponential forgetting.

    Steps with few prompt tokens say nothing: their time is the decodes'. Until a full one was seen, the rate
    is a generous guess, by which nobody is late too early.
    No step weighs more than `MOST_S`: one during which the process was stopped says what any other does.
    """

    def __init__(self, tokens_per_s: float = 10_000.0, memory_s: float = 10.0) -> None:
        self._guess_tokens_per_s = tokens_per_s
        self._memory_s = memory_s
        self._tokens = 0.0
        self._elapsed_s = 0.0

    def observe(self, tokens: int, elapsed_s: float) -> None:
        """A step full of prompts computed `tokens` of them in this time."""
        weight = min(1.0, MOST_S / elapsed_s) if elapsed_s > 0 else 1.0
        kept = math.exp(-weight * elapsed_s / self._memory_s)
        self._tokens = self._tokens * kept + weight * tokens
        self._elapsed_s = self._elapsed_s * kept + weight * elapsed_s

    @property
    def tokens_per_s(self) -> float:
        """The rate now; more than 0."""
        if not self._tokens or not self._elapsed_s:
            return self._guess_tokens_per_s
        return self._tokens / self._elapsed_s
