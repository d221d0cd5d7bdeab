"""Numbers counted by size, so that a million of them cost what a hundred do. Pure.

A bucket spans a tenth of its value at most, and tells the mean of what fell into it: a quantile is off by
no more, and exact where all numbers are alike.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

BUCKETS_PER_DOUBLING = 8


@dataclass(slots=True)
class Tally:
    """Of numbers from 0 on, each finite."""

    total: int = 0
    sum: float = 0.0
    buckets: dict[int | None, tuple[int, float]] = field(default_factory=dict)
    """How many fell into each, and their sum; None is the bucket of zeros."""

    def add(self, value: float) -> None:
        bucket = math.floor(BUCKETS_PER_DOUBLING * math.log2(value)) if value > 0 else None
        self._put(bucket, 1, value)

    @classmethod
    def of(cls, tallies: Iterable[Self]) -> Self:
        """All of them together."""
        whole = cls()
        for tally in tallies:
            for bucket, (count, total) in tally.buckets.items():
                whole._put(bucket, count, total)
        return whole

    def quantile(self, q: float) -> float | None:
        """The number at or below which a share `q` of them lies; None where there are none."""
        rank, seen = q * self.total, 0
        for bucket in sorted(self.buckets, key=lambda bucket: -math.inf if bucket is None else bucket):
            count, total = self.buckets[bucket]
            seen += count
            if seen >= rank:
                return total / count
        return None

    def _put(self, bucket: int | None, count: int, total: float) -> None:
        known_count, known_total = self.buckets.get(bucket, (0, 0.0))
        self.buckets[bucket] = (known_count + count, known_total + total)
        self.total += count
        self.sum += total
