"""A Kalman filter of a few coefficients that are never negative and drift slowly.

What is measured is their sum, each times a known feature. Invariants: coefficients stay finite and at least
0. What was not measured for long becomes open to be learned again, up to the variance of `unit`.
"""

import math
from collections.abc import Sequence
from operator import mul

_NOISE_RATIO = 0.1
"""Standard deviation of what is measured, of what was predicted."""
_DRIFT_RATIO = 2e-4
"""Of the way back to the widest variance, in one update."""
_SURPRISE_DEVIATIONS = 2.5
_MOST_DEVIATIONS = 4.0
"""More than so many is believed no further than that: there was a pause in it."""


class Kalman:
    """Coefficients and how well each, and each pair, is known."""

    def __init__(self, size: int, unit: float) -> None:
        """`unit` is about what is measured, in its unit: more than any term is likely to come to."""
        self.coefficients = [0.0] * size
        self._covariance = [[unit * unit * (i == j) for j in range(size)] for i in range(size)]

    def update(self, features: Sequence[float], measured: float, unit: float) -> float | None:
        """Take a measurement in. Returns it as a multiple of the prediction if it was a surprise."""
        covariance = self._covariance
        predicted = sum(map(mul, self.coefficients, features))
        pulls = [sum(map(mul, row, features)) for row in covariance]
        noise = _NOISE_RATIO * max(predicted, unit / 10)
        variance = sum(map(mul, pulls, features)) + noise * noise
        deviations = (measured - predicted) / math.sqrt(variance)
        believed = max(-_MOST_DEVIATIONS, min(deviations, _MOST_DEVIATIONS)) / math.sqrt(variance)
        for i, pull in enumerate(pulls):
            self.coefficients[i] += pull * believed
            row, share = covariance[i], pull / variance
            covariance[i] = row = [known - share * other for known, other in zip(row, pulls, strict=True)]
            row[i] += _DRIFT_RATIO * max(0.0, unit * unit - row[i])
        self._lift()
        is_surprise = abs(deviations) > _SURPRISE_DEVIATIONS and predicted > 0
        return measured / predicted if is_surprise else None

    def scale(self, ratio: float) -> None:
        """Everything costs so many times what it did."""
        self.coefficients = [ratio * each for each in self.coefficients]
        self._covariance = [[ratio * ratio * each for each in row] for row in self._covariance]

    def _lift(self) -> None:
        """Bring negative coefficients to 0, and the others to what is then the likeliest."""
        for _ in self.coefficients:
            least = min(self.coefficients)
            if least >= 0:
                return
            index = self.coefficients.index(least)
            row = self._covariance[index]
            scale = least / row[index]
            lifted = [each - scale * known for each, known in zip(self.coefficients, row, strict=True)]
            lifted[index] = 0.0
            self.coefficients = lifted
        self.coefficients = [max(0.0, each) for each in self.coefficients]
