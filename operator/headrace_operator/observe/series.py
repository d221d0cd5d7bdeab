"""The scrapes of one pod over time. Pure.

Counters are kept as if they had never been reset: when a process starts anew (its start time changes, or a
count falls), what it counted before is carried over. So the change over any span is one subtraction, and
never negative.
"""

from bisect import bisect_left
from dataclasses import dataclass, field, replace

from headrace_operator.observe.plausibility import Known, believable
from headrace_operator.observe.sample import Buckets, PodSample
from headrace_operator.runtimes.metric_map import Counter, Distribution, Gauge

MAX_SAMPLES = 4096


@dataclass(slots=True)
class PodSeries:
    samples: list[PodSample] = field(default_factory=list)
    """In order of time, counters unwrapped."""
    latest: PodSample | None = None
    """The newest, as far as it can be believed."""
    _known: Known = field(default_factory=Known)
    _carried: dict[Counter, float] = field(default_factory=dict)
    _carried_buckets: dict[Distribution, Buckets] = field(default_factory=dict)

    def append(self, raw: PodSample) -> None:
        """Take in a newer sample; one that is not newer is ignored."""
        if self.latest is not None and raw.at_s <= self.latest.at_s:
            return
        restarted = self.latest is not None and self._restarted(self.latest, raw)
        sample = believable(raw, self._known, restarted=restarted)
        self._carry_over(sample, restarted=restarted)
        self._remember(sample)
        self.latest = sample
        self.samples.append(
            replace(
                sample,
                counters={
                    name: value + self._carried.get(name, 0.0) for name, value in sample.counters.items()
                },
                distributions={
                    name: added(buckets, self._carried_buckets.get(name, Buckets()))
                    for name, buckets in sample.distributions.items()
                },
            )
        )

    def trim(self, before_s: float) -> None:
        """Forget samples older than `before_s`, and the oldest beyond what is kept of any pod."""
        first = max(bisect_left(self.samples, before_s, key=_at), len(self.samples) - MAX_SAMPLES)
        del self.samples[:first]

    def since(self, start_s: float) -> list[PodSample]:
        return self.samples[bisect_left(self.samples, start_s, key=_at) :]

    def _restarted(self, last: PodSample, raw: PodSample) -> bool:
        """By the start time; an engine that tells none has restarted where a count fell."""
        before, now = last.gauges.get(Gauge.START_TIME), raw.gauges.get(Gauge.START_TIME)
        if before is not None and now is not None:
            return now != before
        counters, observed = self._known.counters.items(), self._known.distributions.items()
        return any(raw.counters.get(name, value) < value for name, (_, value) in counters) or any(
            raw.distributions.get(name, buckets).total < buckets.total for name, (_, buckets) in observed
        )

    def _carry_over(self, sample: PodSample, *, restarted: bool) -> None:
        """What an ended process counted, and buckets whose edges are no more."""
        if restarted:
            for name, (since_s, value) in self._known.counters.items():
                self._carried[name] = self._carried.get(name, 0.0) + value
                self._known.counters[name] = (since_s, 0.0)
        for distribution, (since_s, buckets) in self._known.distributions.items():
            if restarted or _edges_changed(buckets, sample.distributions.get(distribution, buckets)):
                carried = self._carried_buckets.get(distribution, Buckets())
                self._carried_buckets[distribution] = added(buckets, carried)
                self._known.distributions[distribution] = (since_s, Buckets())

    def _remember(self, sample: PodSample) -> None:
        self._known.counters |= {name: (sample.at_s, value) for name, value in sample.counters.items()}
        self._known.distributions |= {
            name: (sample.at_s, buckets) for name, buckets in sample.distributions.items()
        }


def added(one: Buckets, other: Buckets) -> Buckets:
    """The sum, at the edges that both have; where one is empty, the other."""
    if one.total == 0 or other.total == 0:
        return other if one.total == 0 and other.total > 0 else one
    edges = tuple(edge for edge in one.upper_edges if edge in other.upper_edges)
    first = dict(zip(one.upper_edges, one.counts, strict=True))
    second = dict(zip(other.upper_edges, other.counts, strict=True))
    counts = tuple(first[edge] + second[edge] for edge in edges)
    return Buckets(edges, counts, one.total + other.total, one.sum + other.sum)


def subtracted(newer: Buckets, older: Buckets) -> Buckets:
    """What was observed between the two states of one series."""
    if older.total == 0:
        return newer
    first = dict(zip(older.upper_edges, older.counts, strict=True))
    kept = [
        (edge, count - first[edge])
        for edge, count in zip(newer.upper_edges, newer.counts, strict=True)
        if edge in first
    ]
    edges, counts = tuple(edge for edge, _ in kept), tuple(count for _, count in kept)
    return Buckets(edges, counts, newer.total - older.total, max(0.0, newer.sum - older.sum))


def _edges_changed(before: Buckets, now: Buckets) -> bool:
    return bool(before.total and now.total) and before.upper_edges != now.upper_edges


def _at(sample: PodSample) -> float:
    return sample.at_s
