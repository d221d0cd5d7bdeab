"""A step model learned from the steps of the engine itself, for who gave none.

A Kalman filter of what any step costs, a token and its square, a sampled row, context and prefill attention.
It moves what it knows least of what a step holds: what decodes cost is known from the steps without prompts,
and what goes beyond it is put on the prompts. Steps that are all alike, which a held budget makes them, blur
nothing.

Two guards for what no line through the past foretells. Nothing is predicted of steps with more than twice the
tokens and attention that were computed lately (`Forecast.reach`), so an engine that has seen nothing starts
small. And where prompts never pause, one step in 32 leaves them out, sooner if steps surprise, to tell both
apart.
"""

import math

from headrace_engine.core.kalman import Kalman
from headrace_engine.core.step_model import Forecast, StepModel, StepWork

_SCALE = StepWork(tokens=64, decode_context_tokens=16_384, prefill_attention_tokens=65_536.0, sampled_rows=16)
"""As much of each as is about as likely to matter as what any step costs."""
_SQUARED_SCALE = 65_536.0
_FIRST_REACH = (32.0, 8192.0)
_REACH_RATIO = 2
_FORGOTTEN_RATIO = 0.99
_ALONE_EVERY_STEPS = 32
_SURPRISE_STEPS = 8
"""A surprising step with prompts counts as so many."""
_SHIFT_STEPS = 3
"""After so many surprises in a row without prompts, the machine has become slower or faster at everything."""
_BELIEVABLE_S = (1e-6, 1e4)
"""A clock that says less, or more, stood still or went mad."""
_SLOWLY, _FAST, _MOST_LONGER_RATIO = 0.05, 0.5, 4
"""How `_unit_s` follows the steps: up slowly, and by a pause no further; down fast."""
_YOUNG_STEPS, _PAUSE_RATIO = 8, 16
"""So early, a step so many times shorter says that there was a pause in those before: they are forgotten."""


class StepLearner:
    """Steps seen, boiled down to a model."""

    def __init__(self) -> None:
        self._filter: Kalman | None = None
        self._reach_tokens, self._reach_attention = _FIRST_REACH
        self._unit_s = 0.0
        """About what a short step takes."""
        self._num_steps = 0
        self._since_alone = 0
        self._shifts: list[float] = []
        """By how much the latest steps without prompts surprised, as long as all of them did to one side."""

    def observe(self, work: StepWork, duration_s: float, *, num_prefill_tokens: int) -> None:
        """A step with this work took so long. A clock that stood still, or went mad, teaches nothing."""
        least_s, most_s = _BELIEVABLE_S
        if not least_s <= duration_s <= most_s:
            return
        features = _features(work)
        paused = self._num_steps < _YOUNG_STEPS and _PAUSE_RATIO * duration_s < self._unit_s
        if self._filter is None or paused:
            self._filter, self._unit_s, self._num_steps = Kalman(len(features), duration_s), duration_s, 0
        self._num_steps += 1
        surprise = self._filter.update(features, duration_s, self._unit_s)
        longer_s = min(duration_s, _MOST_LONGER_RATIO * self._unit_s) - self._unit_s
        self._unit_s += longer_s * (_SLOWLY if longer_s > 0 else _FAST)
        if num_prefill_tokens:
            self._since_alone += 1 if surprise is None else _SURPRISE_STEPS
            self._reach(work)
        else:
            self._since_alone = 0
            self._shift(surprise)

    @property
    def model(self) -> StepModel | None:
        """What was learned; None before the first step."""
        if self._filter is None:
            return None
        base_s, token_s, squared_s, row_s, context_s, attention_s = self._filter.coefficients
        return StepModel(
            base_s,
            0.0,
            token_s / _SCALE.tokens,
            context_token_s=context_s / _SCALE.decode_context_tokens,
            attention_token_s=attention_s / _SCALE.prefill_attention_tokens,
            sampled_row_s=row_s / _SCALE.sampled_rows,
            squared_token_s=squared_s / _SQUARED_SCALE,
        )

    def forecast(self) -> Forecast:
        """The model for the next step, and how far it is to be relied on."""
        reach = StepWork(int(self._reach_tokens), prefill_attention_tokens=self._reach_attention)
        model = self.model or StepModel(0.0, 0.0, 0.0)
        return Forecast(model, reach, wants_decodes_alone=self._since_alone >= _ALONE_EVERY_STEPS)

    def _reach(self, work: StepWork) -> None:
        first_tokens, first_attention = _FIRST_REACH
        seen_tokens, seen_attention = _REACH_RATIO * work.tokens, _REACH_RATIO * work.prefill_attention_tokens
        self._reach_tokens = max(first_tokens, seen_tokens, _FORGOTTEN_RATIO * self._reach_tokens)
        self._reach_attention = max(first_attention, seen_attention, _FORGOTTEN_RATIO * self._reach_attention)

    def _shift(self, surprise: float | None) -> None:
        """Scale all that is known once enough steps in a row say so, by what the least of them says."""
        if surprise is None or (self._shifts and (surprise > 1) != (self._shifts[0] > 1)):
            self._shifts.clear()
        if surprise is None or self._filter is None:
            return
        self._shifts.append(surprise)
        if len(self._shifts) == _SHIFT_STEPS:
            self._filter.scale(min(self._shifts, key=lambda ratio: abs(math.log(ratio))))
            self._shifts.clear()


def _features(work: StepWork) -> tuple[float, ...]:
    return (
        1.0,
        work.tokens / _SCALE.tokens,
        work.tokens * work.tokens / _SQUARED_SCALE,
        work.sampled_rows / _SCALE.sampled_rows,
        work.decode_context_tokens / _SCALE.decode_context_tokens,
        work.prefill_attention_tokens / _SCALE.prefill_attention_tokens,
    )
