"""Values that a number can have and an engine cannot. Pure.

A gauge above anything that a pod could hold; a count that grew faster than a pod could count, or that fell
while the process went on. Such a value is left out of the sample and counted there: missing, never zero. The
bounds are far above any engine: they are not about load, but about pods that lie.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from headrace_operator.observe.sample import Buckets, PodSample
from headrace_operator.runtimes.metric_map import Counter, Distribution, Gauge

REQUESTS_PER_S, STEPS_PER_S, TOKENS_PER_S = 1e5, 1e5, 1e7
"""Of one pod, at most."""
_COUNTED_PER_S: Mapping[Counter, float] = {
    **dict.fromkeys(Counter, REQUESTS_PER_S),
    Counter.PROMPT_TOKENS: TOKENS_PER_S,
    Counter.GENERATION_TOKENS: TOKENS_PER_S,
    Counter.STEPS: STEPS_PER_S,
}
_OBSERVED_PER_S: Mapping[Distribution, float] = {
    Distribution.QUEUE_TIME: REQUESTS_PER_S,
    Distribution.TTFT: REQUESTS_PER_S,
    Distribution.ITL: TOKENS_PER_S,
    Distribution.E2E: REQUESTS_PER_S,
    Distribution.STEP_BUDGET_USED: STEPS_PER_S,
}
_MOST: Mapping[Gauge, float] = {
    Gauge.RUNNING: 65_536,
    Gauge.WAITING: 1e7,
    Gauge.IN_FLIGHT: 1e7,
    Gauge.OLDEST_WAITING_AGE: 86_400,
    Gauge.KV_USED: 1.0001,
    Gauge.MAX_NUM_SEQS: 65_536,
    Gauge.MAX_NUM_BATCHED_TOKENS: 4_194_304,
}
_MOST_OF_ALL = 2.0**53
"""Of any number at all: what is added up of such stays finite, whatever a pod says from its start on."""
_SLACK_S = 1.0
"""Added to the time between two scrapes: an answer takes a while to come."""

Name = TypeVar("Name")


@dataclass(slots=True)
class Known:
    """The newest counts of one process that could be believed, each with its time."""

    counters: dict[Counter, tuple[float, float]] = field(default_factory=dict)
    distributions: dict[Distribution, tuple[float, Buckets]] = field(default_factory=dict)


def believable(raw: PodSample, known: Known, *, restarted: bool) -> PodSample:
    """The sample without what cannot be. `restarted`: counts began anew after those that are known."""
    counters = {
        name: value
        for name, value in raw.counters.items()
        if value <= _MOST_OF_ALL
        and _can_be(value, name, known.counters.get(name), raw.at_s, _COUNTED_PER_S, restarted=restarted)
    }
    distributions = {
        name: buckets
        for name, buckets in raw.distributions.items()
        if max(buckets.total, buckets.sum) <= _MOST_OF_ALL
        and _can_be(
            buckets.total,
            name,
            _total(known.distributions.get(name)),
            raw.at_s,
            _OBSERVED_PER_S,
            restarted=restarted,
        )
    }
    gauges = {name: value for name, value in raw.gauges.items() if value <= _MOST.get(name, _MOST_OF_ALL)}
    before = len(raw.counters) + len(raw.distributions) + len(raw.gauges)
    left_out = before - len(counters) - len(distributions) - len(gauges)
    return replace(
        raw,
        counters=counters,
        distributions=distributions,
        gauges=gauges,
        implausible=raw.implausible + left_out,
    )


def _total(known: tuple[float, Buckets] | None) -> tuple[float, float] | None:
    return None if known is None else (known[0], known[1].total)


def _can_be(
    value: float,
    name: Name,
    known: tuple[float, float] | None,
    at_s: float,
    per_s: Mapping[Name, float],
    *,
    restarted: bool,
) -> bool:
    if known is None:
        return True
    since_s, before = known
    base = 0.0 if restarted else before
    return base <= value <= base + per_s[name] * (at_s - since_s + _SLACK_S)
