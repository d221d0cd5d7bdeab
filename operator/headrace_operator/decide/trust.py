"""Whether what was measured may be acted on. Missing is not zero: without data everything holds.

| seen | verdict |
| --- | --- |
| nothing ready, or never scraped | InsufficientData |
| newest sample older than a few scrapes, or from a time to come | MetricsStale |
| a gap inside the interval | InsufficientData |
| the interval not full yet, a change behind it | Stabilizing: the change is being judged |
| the interval not full yet otherwise | InsufficientData |
| arrivals or running requests not reported | InsufficientData, the metric is named |
"""

from dataclasses import dataclass

from headrace_operator.api.spec import ServiceSpec
from headrace_operator.api.status import Previous
from headrace_operator.api.units import duration_text
from headrace_operator.api.vocabulary import Reason
from headrace_operator.decide.observation import Observation, Window

FRESH_SCRAPES = 5
"""A newest sample older than so many scrape intervals is stale; a gap as long is a gap."""


@dataclass(frozen=True, slots=True)
class Blindness:
    """Why the load is not known."""

    reason: Reason
    message: str
    missing: str | None = None
    """What engines ought to report and do not."""


def blindness(
    observation: Observation, spec: ServiceSpec, *, scrape_interval_s: float, now_s: float
) -> Blindness | None:
    """Why `observation.recent` may not be acted on; None where it may."""
    if not any(pod.ready for pod in observation.pods):
        return Blindness(Reason.INSUFFICIENT_DATA, "no pod is ready")
    recent, fresh_s = observation.recent, FRESH_SCRAPES * scrape_interval_s
    newest = recent or observation.window
    if newest is None:
        return _unfilled(0.0, spec, observation.previous, now_s=now_s)
    age_s = now_s - newest.end_s
    if age_s < -fresh_s:
        return Blindness(
            Reason.METRICS_STALE, "the newest sample is of a time to come: the clock was set back"
        )
    if age_s > fresh_s:
        return Blindness(Reason.METRICS_STALE, f"the newest sample is {duration_text(age_s)} old")
    if newest.pods_reporting == 0:
        return Blindness(Reason.METRICS_STALE, "no ready pod reports now, or none that can be believed")
    if recent is None:
        return _unfilled(0.0, spec, observation.previous, now_s=now_s)
    if recent.longest_gap_s > fresh_s:
        message = f"no pod could be scraped for {duration_text(recent.longest_gap_s)}"
        return Blindness(Reason.INSUFFICIENT_DATA, message)
    # The first sample comes up to one scrape after the interval's start, the newest is up to one old.
    if recent.span_s + 2 * scrape_interval_s < spec.tuning.interval_s or recent.span_s <= 0:
        return _unfilled(recent.span_s, spec, observation.previous, now_s=now_s)
    missing = _missing(recent)
    if missing is None:
        return None
    return Blindness(Reason.INSUFFICIENT_DATA, f"engines report no {missing}", missing)


def sees_all_pods(observation: Observation, spec: ServiceSpec, *, now_s: float) -> bool:
    """Whether enough is known to take something away: every ready pod, and a whole window since the start."""
    recent, since_s = observation.recent, observation.observing_since_s
    if recent is None or since_s is None:
        return False
    return recent.pods_reporting >= recent.pods_expected and now_s - since_s >= spec.slo.window_s


def _unfilled(span_s: float, spec: ServiceSpec, previous: Previous, *, now_s: float) -> Blindness:
    latest = previous.history[0] if previous.history else None
    have = f"{duration_text(span_s)} of {duration_text(spec.tuning.interval_s)} measured"
    if latest is not None and now_s - latest.at_s < 2 * spec.tuning.interval_s:
        return Blindness(Reason.STABILIZING, f"judging {latest.action}: {have} since")
    return Blindness(Reason.INSUFFICIENT_DATA, have)


def _missing(window: Window) -> str | None:
    named = {"arrivals": window.arrivals, "running requests": window.running_per_pod}
    return next((name for name, value in named.items() if value is None), None)
