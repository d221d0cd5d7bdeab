"""A step model learned from the steps of the engine itself, for who gave none.

Two coefficients, what any step costs and what a token adds, follow what is seen by normalized least mean
squares: each step moves them along its own direction alone, so steps that are all alike, which a held budget
makes them, blur neither. Context is not told apart: it changes slowly, and what a step costs follows it.
"""

import math

from headrace_engine.core.step_model import StepModel, StepWork


class StepLearner:
    """Steps seen, boiled down to a model."""

    _RATE = 0.3
    _SCALE_TOKENS = 64
    """A step of so many tokens tells as much of the one coefficient as of the other."""
    _FEW_STEPS = 16
    _OUTLIER_RATIO = 3.0
    """A step that takes so many times more than predicted had a pause in it: no more of it is believed."""

    def __init__(self) -> None:
        self._num_steps = 0
        self._base_s = 0.0
        self._scale_s = 0.0

    def observe(self, work: StepWork, duration_s: float) -> None:
        """A step with this work took so long. A clock that stood still, or went mad, teaches nothing."""
        if not 0 < duration_s < math.inf:
            return
        if not self._num_steps:
            self._base_s = duration_s
        size = work.tokens / self._SCALE_TOKENS
        predicted_s = self._base_s + self._scale_s * size
        error_s = duration_s - predicted_s
        if self._num_steps >= self._FEW_STEPS:
            error_s = min(error_s, self._OUTLIER_RATIO * predicted_s)
        gain_s = self._RATE * error_s / (1 + size * size)
        self._base_s = max(0.0, self._base_s + gain_s)
        self._scale_s = max(0.0, self._scale_s + gain_s * size)
        self._num_steps += 1

    @property
    def model(self) -> StepModel | None:
        """What was learned; None while too few steps were seen."""
        if self._num_steps < self._FEW_STEPS:
            return None
        return StepModel(self._base_s, 0.0, self._scale_s / self._SCALE_TOKENS)
