"""Services at rest: nothing runs, nothing waits, nothing is under way. They are looked at seldom.

So a thousand idle services cost little. Whatever changes in the cluster wakes one at rest like any other, and
so does the first request that a scrape shows.
"""

from collections.abc import Callable

from headrace_operator.api.spec import Invalid, ScalingMode, ServiceSpec
from headrace_operator.decide.observation import Observation, PodObservation
from headrace_operator.decide.plan import Plan
from headrace_operator.kube.kinds import DEPLOYMENTS, Key
from headrace_operator.observe.sample import PodSample
from headrace_operator.runtimes.metric_map import Counter, Gauge

REST_INTERVALS = 12
"""Regular intervals between two looks at a service at rest."""


_PINNED = frozenset({ScalingMode.FIXED, ScalingMode.EXTERNAL})
"""Else, with more pods than the least, a rule counts how long they have been too many."""


class Rest:
    """Who is at rest. `wake` is told a key that no longer is."""

    def __init__(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake
        self._resting: set[Key] = set()

    def intervals(self, key: Key, *, at_rest: bool) -> int:
        """How many regular intervals may pass before the next look."""
        if at_rest:
            self._resting.add(key)
            return REST_INTERVALS
        self._resting.discard(key)
        return 1

    def forget(self, key: Key) -> None:
        """The service is gone."""
        self._resting.discard(key)

    def scraped(self, key: Key, before: PodSample | None, now: PodSample) -> None:
        """A pod was scraped: `before` is its sample of the time before."""
        if key in self._resting and stirs(before, now):
            self._resting.discard(key)
            self._wake(key)


def is_at_rest(plan: Plan, observation: Observation, spec: ServiceSpec | Invalid) -> bool:
    """Whether nothing but an event or a request can change what was decided."""
    previous = observation.previous
    if isinstance(spec, Invalid) or not plan.is_empty or plan.events or plan.wake_after_s is not None:
        return False
    if observation.refused is not None or previous.overloaded_since_s is not None:
        return False
    if previous.rollout is not None and (previous.rollout.is_under_way or previous.rollout.failed):
        return False
    deployment = observation.children.get(DEPLOYMENTS.kind, {})
    replicas = deployment.get("spec", {}).get("replicas")
    return (
        replicas == len(observation.pods)
        and (spec.scaling.mode in _PINNED or replicas == spec.scaling.min_replicas)
        and all(_is_settled(pod) for pod in observation.pods)
        and _is_idle(observation)
    )


def stirs(before: PodSample | None, now: PodSample) -> bool:
    """Whether there is anything to decide about since the sample before."""
    if before is None or now.gauges.get(Gauge.RUNNING) or now.gauges.get(Gauge.WAITING):
        return True
    return now.counters.get(Counter.ARRIVALS) != before.counters.get(Counter.ARRIVALS)


def _is_settled(pod: PodObservation) -> bool:
    return pod.ready and not pod.deleting and pod.draining_since_s is None and not pod.is_left_alone


def _is_idle(observation: Observation) -> bool:
    window = observation.window
    return window is None or not (window.arrivals or window.running_peak or window.waiting)
