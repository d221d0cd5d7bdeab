"""Quantiles and shares of one window's observations, as Prometheus' histograms allow them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations of one window: the difference of two scrapes, counter resets removed, summed over pods."""

    upper_edges: tuple[float, ...]
    """Finite and ascending; the last bucket is open."""
    counts: tuple[int, ...]
    """Cumulative, one for each edge, as Prometheus counts: observations at most the edge."""
    total: int
    sum: float

    def quantile(self, q: float) -> float | None:
        """The value that a share `q` of the observations does not exceed, interpolated inside its bucket.

        None without observations. In the open bucket it is the last edge: at least that much.
        """
        if self.total <= 0 or not self.upper_edges:
            return None
        rank, below, low = q * self.total, 0, 0.0
        for edge, count in zip(self.upper_edges, self.counts, strict=True):
            if count >= rank:
                inside = count - below
                return low + (edge - low) * ((rank - below) / inside if inside else 1.0)
            below, low = count, edge
        return self.upper_edges[-1]

    def share_at_most(self, value: float) -> float | None:
        """The share of observations that do not exceed `value`, interpolated. None without observations."""
        if self.total <= 0:
            return None
        below, low = 0, 0.0
        for edge, count in zip(self.upper_edges, self.counts, strict=True):
            if value < edge:
                inside = (count - below) * (value - low) / (edge - low) if edge > low else 0.0
                return min(1.0, max(0.0, (below + inside) / self.total))
            below, low = count, edge
        return min(1.0, below / self.total)

    @property
    def mean(self) -> float | None:
        return self.sum / self.total if self.total > 0 else None
