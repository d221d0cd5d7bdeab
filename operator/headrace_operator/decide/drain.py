"""From the wanted number of replicas to the Deployment's, without breaking a stream.

Raising happens at once. Lowering empties pods first: the least busy are marked (their deletion cost makes
the ReplicaSet remove them first), stop taking requests, and the Deployment is lowered when they are empty or
the drain timeout is over. Pods that serve nothing yet go without. Whatever lowered the number, this is how
it comes about.
"""

from dataclasses import dataclass

from headrace_operator.api.names import (
    DELETION_COST_ANNOTATION,
    DRAINED_DELETION_COST,
    DRAINING_ANNOTATION,
    LEFT_ALONE,
)
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.api.units import duration_text, time_text
from headrace_operator.decide.observation import PodObservation
from headrace_operator.decide.plan import Drain, Event, PodAnnotations
from headrace_operator.decide.supply import Supply
from headrace_operator.runtimes.registry import adapter

SETTLE_S = 5.0
"""Requests routed before the mark may still arrive so long: an empty pod is not believed earlier."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The next steps towards the wanted number."""

    deployment_replicas: int
    annotate: tuple[PodAnnotations, ...] = ()
    drain: tuple[Drain, ...] = ()
    events: tuple[Event, ...] = ()


def steps(spec: ServiceSpec, supply: Supply, *, desired: int, now_s: float) -> Steps:
    """What to do now so that in the end `desired` pods serve."""
    deployed = supply.deployed_replicas
    if deployed is None:
        return Steps(desired)
    # Pods that are being emptied do not serve, so they come on top of those that are wanted.
    wanted = desired + supply.counted_draining
    if deployed <= wanted and not supply.draining:
        return Steps(wanted)
    if supply.is_rolling_out and desired == 0:
        # Whichever pods go, none stays, and each ends what it has: a rollout that is stuck is not waited for.
        return Steps(0)
    if supply.is_rolling_out:
        return Steps(max(deployed, desired), drain=_drains(spec, supply.draining))
    if deployed < wanted:
        return Steps(wanted, drain=_drains(spec, supply.draining))
    if supply.draining and deployed > len(supply.staying):
        return _removed(spec, supply, deployed, now_s)
    if len(supply.staying) <= desired:
        return Steps(wanted)
    return _marked(spec, supply, deployed=deployed, excess=deployed - desired, now_s=now_s)


def victims(supply: Supply, count: int) -> tuple[PodObservation, ...]:
    """Of the serving pods those with the least to lose: the fewest requests in flight, then the youngest.

    A pod whose load is not known counts as the busiest.
    """

    def work(pod: PodObservation) -> tuple[float, float]:
        in_flight = pod.scrape.in_flight if pod.scrape is not None else None
        return (float("inf") if in_flight is None else in_flight, -pod.created_s)

    return tuple(sorted(supply.ready, key=work)[:count])


def is_drained(pod: PodObservation, spec: ServiceSpec, *, now_s: float) -> bool:
    """Whether a marked pod may go: nothing is left in it, its time is over, or it ends by itself."""
    since_s = pod.draining_since_s
    if since_s is None:
        return False
    if not adapter(spec.engine.runtime).drains_by_call:
        return now_s >= since_s + SETTLE_S
    scrape = pod.scrape
    is_empty = (
        scrape is not None
        and scrape.at_s >= since_s + SETTLE_S
        and scrape.draining is True
        and scrape.in_flight == 0
    )
    return is_empty or is_overdue(pod, spec, now_s=now_s)


def is_overdue(pod: PodObservation, spec: ServiceSpec, *, now_s: float) -> bool:
    return (
        pod.draining_since_s is not None
        and now_s >= pod.draining_since_s + spec.engine.drain_timeout_s + SETTLE_S
    )


def _removed(spec: ServiceSpec, supply: Supply, deployed: int, now_s: float) -> Steps:
    gone = [pod for pod in supply.draining if is_drained(pod, spec, now_s=now_s)]
    left = tuple(pod for pod in supply.draining if pod not in gone)
    # A ReplicaSet removes pending pods before any other, whatever their cost: they are waited for.
    if not gone or any(pod.phase == "Pending" for pod in supply.staying):
        return Steps(deployed, drain=_drains(spec, left))
    events = tuple(_end(pod, spec, now_s) for pod in gone)
    return Steps(deployed - len(gone), drain=_drains(spec, left), events=events)


def _marked(spec: ServiceSpec, supply: Supply, *, deployed: int, excess: int, now_s: float) -> Steps:
    idle = len(supply.loading) + len(supply.stuck)
    if idle:
        return Steps(deployed - min(excess, idle))
    chosen = victims(supply, excess)
    if not chosen:
        return Steps(deployed - excess)
    annotations = {
        DELETION_COST_ANNOTATION: DRAINED_DELETION_COST,
        DRAINING_ANNOTATION: time_text(now_s),
        **LEFT_ALONE,
    }
    return Steps(
        deployed,
        annotate=tuple(PodAnnotations(pod.name, pod.uid, annotations) for pod in chosen),
        drain=_drains(spec, chosen),
        events=tuple(
            Event("Normal", "DrainStarted", f"{pod.name}: {_in_flight(pod)} requests in flight")
            for pod in chosen
        ),
    )


def _drains(spec: ServiceSpec, pods: tuple[PodObservation, ...]) -> tuple[Drain, ...]:
    """One call for each pod that does not say yet that it drains."""
    if not adapter(spec.engine.runtime).drains_by_call:
        return ()
    return tuple(
        Drain(pod.name, pod.uid, pod.ip, spec.engine.drain_timeout_s)
        for pod in pods
        if pod.ip is not None and (pod.scrape is None or pod.scrape.draining is not True)
    )


def _end(pod: PodObservation, spec: ServiceSpec, now_s: float) -> Event:
    took = duration_text(now_s - (pod.draining_since_s or now_s))
    if not adapter(spec.engine.runtime).drains_by_call:
        message = f"{pod.name}: deleted, it ends {_in_flight(pod)} requests by itself"
        return Event("Normal", "DrainHandedOver", message)
    in_flight = pod.scrape.in_flight if pod.scrape is not None else None
    if is_overdue(pod, spec, now_s=now_s) and in_flight != 0:
        message = f"{pod.name}: {_in_flight(pod)} requests still in flight after {took}"
        return Event("Warning", "DrainTimedOut", message)
    return Event("Normal", "DrainCompleted", f"{pod.name}: empty after {took}")


def _in_flight(pod: PodObservation) -> str:
    in_flight = pod.scrape.in_flight if pod.scrape is not None else None
    return "an unknown number of" if in_flight is None else str(in_flight)
