"""What a service's pods said since a time, as one `Window`. Pure: scrapes and times in, values out.

A pod that is gone still counts for what it served inside the window. A gap is a gap: nothing is filled in.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from headrace_operator.api.spec import Limits
from headrace_operator.decide.histogram import Histogram
from headrace_operator.decide.observation import Window
from headrace_operator.observe.records import Records
from headrace_operator.observe.sample import Buckets, PodSample
from headrace_operator.observe.series import PodSeries, added, subtracted
from headrace_operator.runtimes.metric_map import Counter, Distribution, Gauge

CLOCK_STEP_S = 10.0
"""A scrape that is so much older than the newest did not come late: the clock was set back."""


@dataclass(slots=True)
class ServiceWindows:
    """The scrapes of every pod of one service, by pod uid."""

    pods: dict[str, PodSeries] = field(default_factory=dict)
    observing_since_s: float | None = None
    told: dict[str, tuple[float, Limits]] = field(default_factory=dict)
    """What a pod answered to a change of its limits, and when: newer than a scrape from before it."""
    records: Records = field(default_factory=Records)
    """What its engines recorded of their steps and requests."""
    _scraped_at_s: float | None = None

    def record(self, pod_uid: str, sample: PodSample, *, longest_break_s: float, retention_s: float) -> None:
        """Take in a successful scrape. After a break longer than `longest_break_s`, observing begins anew."""
        last_s = self._scraped_at_s
        if last_s is not None and sample.at_s < last_s - CLOCK_STEP_S:
            # All that is known has times to come, and would look fresh until they have come.
            self.pods.clear()
            self.told.clear()
            self.records.clear()
            last_s = None
        if last_s is None or sample.at_s - last_s > longest_break_s:
            self.observing_since_s = sample.at_s
        self._scraped_at_s = sample.at_s if last_s is None else max(sample.at_s, last_s)
        self.pods.setdefault(pod_uid, PodSeries()).append(sample)
        for uid, series in list(self.pods.items()):
            series.trim(sample.at_s - retention_s)
            if not series.samples:
                del self.pods[uid]
                self.told.pop(uid, None)

    def latest(self, pod_uid: str) -> PodSample | None:
        series = self.pods.get(pod_uid)
        return series.latest if series else None

    def window(
        self, *, start_s: float, now_s: float, ready_uids: Collection[str], fresh_s: float
    ) -> Window | None:
        """The samples from `start_s` on, None where there are none. A pod reports while its newest scrape is
        at most `fresh_s` old.
        """
        since = {uid: samples for uid, series in self.pods.items() if (samples := series.since(start_s))}
        if not since:
            return None
        times = sorted({sample.at_s for samples in since.values() for sample in samples})
        live = {uid: samples for uid, samples in since.items() if now_s - samples[-1].at_s <= fresh_s}
        counts: dict[str, Any] = {counter.value: _count(since.values(), counter) for counter in Counter}
        histograms: dict[str, Any] = {name.value: _histogram(since.values(), name) for name in Distribution}
        running = [value for samples in since.values() for value in _values(samples, Gauge.RUNNING)]
        return Window(
            start_s=times[0],
            end_s=times[-1],
            longest_gap_s=_longest_gap_s(times, now_s),
            pods_reporting=sum(uid in live and not live[uid][-1].implausible for uid in ready_uids),
            pods_expected=len(ready_uids),
            running_per_pod=_mean(running),
            running_peak=_max(running),
            waiting=_sum(_mean(_values(samples, Gauge.WAITING)) for samples in live.values()),
            oldest_waiting_age_s=_max(
                _newest(samples, Gauge.OLDEST_WAITING_AGE) for samples in live.values()
            ),
            kv_used_ratio=_max(_mean(_values(samples, Gauge.KV_USED)) for samples in live.values()),
            mix=self.records.mix(start_s=start_s, now_s=now_s),
            step_work=self.records.step_work(start_s=start_s, now_s=now_s),
            **counts,
            **histograms,
        )


def _longest_gap_s(times: list[float], now_s: float) -> float:
    return max(later - earlier for earlier, later in zip(times, (*times[1:], now_s), strict=True))


def _newest(samples: list[PodSample], gauge: Gauge) -> float | None:
    return samples[-1].gauges.get(gauge)


def _values(samples: Iterable[PodSample], gauge: Gauge) -> list[float]:
    return [sample.gauges[gauge] for sample in samples if gauge in sample.gauges]


def _count(pods: Collection[list[PodSample]], counter: Counter) -> int | None:
    """The increase, over all pods that report the counter; None where none does."""
    spans = [
        [sample.counters[counter] for sample in samples if counter in sample.counters] for samples in pods
    ]
    total = _sum(span[-1] - span[0] for span in spans if span)
    return None if total is None else round(total)


def _histogram(pods: Collection[list[PodSample]], name: Distribution) -> Histogram | None:
    total: Buckets | None = None
    for samples in pods:
        states = [sample.distributions[name] for sample in samples if name in sample.distributions]
        if states:
            change = subtracted(states[-1], states[0])
            total = change if total is None else added(total, change)
    if total is None:
        return None
    return Histogram(
        total.upper_edges, tuple(round(count) for count in total.counts), round(total.total), total.sum
    )


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _max(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None
