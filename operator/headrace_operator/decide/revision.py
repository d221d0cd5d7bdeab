"""What pods are made of: what the spec asks for, or, where that failed, what they were last well with.

A template is given up when its pods end again and again before they are ready, or get no further until the
deadline. It is then known by its digest and not tried again until the spec asks for another one. The status
remembers it, and Kubernetes' own ReplicaSet keeps the template to go back to, so that no operator needs to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace_operator.api.rollout_memory import FailedRevision, GoodRevision, RolloutMemory
from headrace_operator.api.spec import Limits, Range, ServiceSpec
from headrace_operator.api.status_document import message_text
from headrace_operator.api.units import duration_text
from headrace_operator.decide.health import (
    PODS_REFUSED,
    exceeds_gpu_quota,
    failure_reason,
    failure_text,
    first_failure,
    refused_text,
)
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.settings import Settings
from headrace_operator.decide.supply import Supply, lacks_gpu, supply
from headrace_operator.render.pod_template import pod_template, template_hash
from headrace_operator.runtimes.registry import runtime_of

CRASHES = frozenset({"EngineFailed", "OutOfMemory"})
MOST_ENDS = 2
"""So often a new engine may end before its template is given up: the first end may be the node's doing."""

Template = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Revision:
    """`template` is what pods are made of from now on, `spec` what the user asks for as far as these pods can
    follow it.
    """

    memory: RolloutMemory
    template: Template
    spec: ServiceSpec


def revision(observation: Observation, spec: ServiceSpec, *, settings: Settings, now_s: float) -> Revision:
    """The revision in force now."""
    image = spec.engine.image or settings.engine_image
    wanted = pod_template(spec, image=image, admin_keys=settings.admin_keys)
    pods, digest = supply(observation, spec, now_s=now_s), template_hash(wanted) or ""
    memory = replace(
        remembered(observation, spec, pods, wanted=digest, now_s=now_s),
        lacks_gpu_since_s=_lacks_gpu_since_s(observation, spec, pods, now_s=now_s),
    )
    template = template_in_force(memory, observation, wanted)
    return Revision(memory, template, spec_in_force(spec, memory, template))


def remembered(
    observation: Observation, spec: ServiceSpec, pods: Supply, *, wanted: str, now_s: float
) -> RolloutMemory:
    """The memory with what is to be seen now in it. `wanted` is the digest of what the spec asks for."""
    previous, deployment = observation.previous.rollout, observation.children.get("Deployment")
    if previous is None:
        return RolloutMemory(wanted, now_s)
    if previous.template != wanted:
        return RolloutMemory(wanted, now_s, good=previous.good)
    if deployment is None:
        # Its ReplicaSets went with it: there is nothing to go back to.
        return RolloutMemory(wanted, previous.since_s)
    if previous.failed is not None:
        return previous if spec.rollout.rollback else RolloutMemory(wanted, now_s, good=previous.good)
    good = _good(deployment, spec, pods, wanted)
    if good is not None:
        return replace(previous, good=good)
    if not previous.is_under_way or previous.good is None:
        return previous
    if not spec.rollout.rollback or observation.good_template is None:
        return previous
    return replace(previous, failed=_failure(deployment, spec, pods, previous, now_s=now_s))


def template_in_force(memory: RolloutMemory, observation: Observation, wanted: Template) -> Template:
    """What pods are made of from now on."""
    if memory.failed is None:
        return wanted
    live = observation.children.get("Deployment") or {}
    # Where the ReplicaSet is gone for a moment, nothing is tried: the Deployment keeps what it has.
    kept: Template | None = observation.good_template or (live.get("spec") or {}).get("template")
    return kept or wanted


def spec_in_force(spec: ServiceSpec, memory: RolloutMemory, template: Template) -> ServiceSpec:
    """The spec as far as the pods can follow it: after a rollback they run the engine of before, with the
    capacity of before.
    """
    if memory.failed is None or memory.good is None:
        return spec
    widest, tuning = memory.good.widest, spec.tuning
    capacity = replace(
        spec.engine.capacity,
        max_num_seqs=widest.max_num_seqs,
        max_num_batched_tokens=widest.max_num_batched_tokens,
    )
    bounded = replace(
        tuning,
        max_num_seqs=_within(tuning.max_num_seqs, widest.max_num_seqs),
        max_num_batched_tokens=_within(tuning.max_num_batched_tokens, widest.max_num_batched_tokens),
    )
    engine = replace(spec.engine, capacity=capacity, runtime=runtime_of(template.get("spec") or {}))
    return replace(spec, engine=engine, tuning=bounded)


def _within(bounds: Range, most: int) -> Range:
    return Range(min(bounds.low, most), min(bounds.high, most))


def _good(deployment: Mapping[str, Any], spec: ServiceSpec, pods: Supply, wanted: str) -> GoodRevision | None:
    """The revision of `wanted`, where all pods are of it and serve."""
    status = deployment.get("status") or {}
    counts = {status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")}
    is_whole = counts == {pods.deployed_replicas} and bool(pods.deployed_replicas)
    replica_sets = {pod.replica_set for pod in pods.ready if pod.template == wanted}
    if not is_whole or not _is_followed(deployment, wanted) or len(replica_sets) != 1:
        return None
    replica_set = replica_sets.pop()
    capacity = spec.engine.capacity
    widest = Limits(capacity.max_num_seqs, capacity.max_num_batched_tokens)
    return None if replica_set is None else GoodRevision(wanted, replica_set, widest)


def _failure(
    deployment: Mapping[str, Any], spec: ServiceSpec, pods: Supply, memory: RolloutMemory, *, now_s: float
) -> FailedRevision | None:
    """Why the attempt is given up; None where it is not."""
    new = replace(pods, stuck=tuple(pod for pod in pods.stuck if pod.template == memory.template))
    for pod in new.stuck:
        reason = failure_reason(pod, spec)
        if pod.restarts >= MOST_ENDS and reason in CRASHES:
            message = f"ended {pod.restarts} times before it was ready: {failure_text(pod)}"
            return FailedRevision(now_s, reason, message_text(message))
    deadline_s = spec.rollout.progress_deadline_s
    if not _has_timed_out(deployment, memory.template) or now_s - memory.since_s < deadline_s:
        return None
    reason, why = _why_late(deployment, spec, new)
    message = f"no progress for {duration_text(deadline_s)}: {why}"
    return FailedRevision(now_s, reason, message_text(message))


def _why_late(deployment: Mapping[str, Any], spec: ServiceSpec, new: Supply) -> tuple[str, str]:
    failed, refused = first_failure(new), refused_text(deployment)
    if failed is not None:
        return failure_reason(failed, spec), failure_text(failed)
    if refused is not None:
        return PODS_REFUSED, refused
    return "ProgressDeadlineExceeded", "pods do not become ready"


def _lacks_gpu_since_s(
    observation: Observation, spec: ServiceSpec, pods: Supply, *, now_s: float
) -> float | None:
    is_short = exceeds_gpu_quota(observation.children.get("Deployment")) or any(
        lacks_gpu(pod, spec) for pod in pods.stuck
    )
    if not pods.is_rolling_out or not is_short:
        return None
    if any(pod.deleting for pod in observation.pods):
        return None
    known = observation.previous.rollout
    return now_s if known is None else known.lacks_gpu_since_s or now_s


def _is_followed(deployment: Mapping[str, Any], wanted: str) -> bool:
    """Whether the Deployment asks for the template, and its status is about that."""
    observed = (deployment.get("status") or {}).get("observedGeneration") or 0
    template = (deployment.get("spec") or {}).get("template") or {}
    is_current: bool = observed >= (deployment["metadata"].get("generation") or 0)
    return is_current and template_hash(template) == wanted


def _has_timed_out(deployment: Mapping[str, Any], wanted: str) -> bool:
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    return _is_followed(deployment, wanted) and any(
        (found.get("type"), found.get("status")) == ("Progressing", "False") for found in conditions
    )
