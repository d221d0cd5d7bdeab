"""One scrape of one pod, reduced to the series that decisions are made of. Pure.

A counter that the engine declares but has not counted yet is 0; one that it does not declare is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from headrace_operator.observe.exposition import Exposition
from headrace_operator.runtimes.metric_map import Counter, Distribution, Gauge, MetricMap, Series

LARGEST_EDGE = 1e9
"""Of any bucket, whether of seconds, tokens or shares."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """A cumulative histogram: `counts[i]` observations at most `upper_edges[i]`, `total` in all."""

    upper_edges: tuple[float, ...] = ()
    counts: tuple[float, ...] = ()
    total: float = 0.0
    sum: float = 0.0


@dataclass(frozen=True, slots=True)
class PodSample:
    at_s: float
    counters: Mapping[Counter, float]
    distributions: Mapping[Distribution, Buckets]
    gauges: Mapping[Gauge, float]
    implausible: int = 0


def sample(exposition: Exposition, *, metrics: MetricMap, at_s: float) -> PodSample:
    """What `exposition` says in our words; what it does not say is not in the mappings."""
    counters = {
        counter: value
        for counter, parts in metrics.counters.items()
        if (value := _added(exposition, parts)) is not None
    }
    distributions = {
        distribution: buckets
        for distribution, name in metrics.distributions.items()
        if (buckets := _buckets(exposition, name)) is not None
    }
    gauges = {
        gauge: value
        for gauge, series in metrics.gauges.items()
        if (value := _total(exposition, series)) is not None
    }
    return PodSample(at_s, counters, distributions, gauges, exposition.implausible)


def _total(exposition: Exposition, series: Series) -> float | None:
    values = [
        found.value
        for found in exposition.samples.get(series.name, ())
        if series.label is None or found.labels.get(series.label[0]) == series.label[1]
    ]
    return sum(values) if values else None


def _added(exposition: Exposition, parts: tuple[Series, ...]) -> float | None:
    """None too where more is deducted than there is: one of the counts is wrong."""
    first, *rest = parts
    total = _counted(exposition, first)
    if total is None:
        return None
    for series in rest:
        value = _counted(exposition, series) or 0.0
        total += -value if series.is_deducted else value
    return total if total >= 0 else None


def _counted(exposition: Exposition, series: Series) -> float | None:
    value = _total(exposition, series)
    return 0.0 if value is None and series.family in exposition.families else value


def _buckets(exposition: Exposition, name: str) -> Buckets | None:
    total = _total(exposition, Series(f"{name}_count"))
    if total is None:
        return Buckets() if name in exposition.families else None
    by_edge: dict[float, float] = {}
    for found in exposition.samples.get(f"{name}_bucket", ()):
        edge = _edge(found.labels.get("le"))
        if edge is not None:
            by_edge[edge] = by_edge.get(edge, 0.0) + found.value
    edges = tuple(sorted(by_edge))
    counts = tuple(by_edge[edge] for edge in edges)
    if (total and not edges) or any(low > high for low, high in pairwise((*counts, total))):
        return None
    return Buckets(edges, counts, total, _total(exposition, Series(f"{name}_sum")) or 0.0)


def _edge(text: str | None) -> float | None:
    """None for the open bucket, which `_count` already tells, and for what no bucket of ours ends at."""
    try:
        edge = float(text) if text is not None else None
    except ValueError:
        return None
    return edge if edge is not None and 0 <= edge <= LARGEST_EDGE else None
