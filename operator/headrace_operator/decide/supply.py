"""The pods there are: those that serve, those that come, those that do not come, those that go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace_operator.api.rollout_memory import RolloutMemory
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.decide.observation import Observation, PodObservation
from headrace_operator.render.pod_template import template_hash

UNSCHEDULABLE = "Unschedulable"
ENDED = frozenset({"Failed", "Succeeded"})


@dataclass(frozen=True, slots=True)
class Supply:
    """Pods by what they are to demand. Pods under deletion are in none of them.

    A pod that ended as a whole (evicted, refused by its node) has been replaced already: it serves nobody,
    its ReplicaSet does not count it, and lowering the Deployment would take another.
    """

    ready: tuple[PodObservation, ...]
    loading: tuple[PodObservation, ...]
    """Not ready and not late: capacity that is on its way."""
    stuck: tuple[PodObservation, ...]
    """Not ready and in trouble, or longer than the start-up timeout."""
    draining: tuple[PodObservation, ...]
    ended: tuple[PodObservation, ...]
    deployed_replicas: int | None
    """What the live Deployment asks for; None where there is none."""
    is_rolling_out: bool
    """Pods of an older template are being replaced, or are about to be."""

    @property
    def staying(self) -> tuple[PodObservation, ...]:
        return (*self.ready, *self.loading, *self.stuck)

    @property
    def counted_draining(self) -> int:
        """Pods being emptied that the Deployment still counts; others are seen until they are deleted."""
        return min(len(self.draining), max(0, (self.deployed_replicas or 0) - len(self.staying)))


def supply(
    observation: Observation, spec: ServiceSpec, *, now_s: float, template: str | None = None
) -> Supply:
    """The service's pods, sorted out. `template` is the digest of what pods are to be made of."""
    known = sorted((pod for pod in observation.pods if not pod.deleting), key=lambda pod: pod.name)
    pods = [pod for pod in known if pod.phase not in ENDED]
    staying = [pod for pod in pods if pod.draining_since_s is None]
    starting = [pod for pod in staying if not pod.ready]
    deployment = observation.children.get("Deployment")
    return Supply(
        ready=tuple(pod for pod in staying if pod.ready),
        loading=tuple(pod for pod in starting if not _is_stuck(pod, spec, now_s)),
        stuck=tuple(pod for pod in starting if _is_stuck(pod, spec, now_s)),
        draining=tuple(pod for pod in pods if pod.draining_since_s is not None),
        ended=tuple(pod for pod in known if pod.phase in ENDED),
        deployed_replicas=_deployed_replicas(deployment),
        is_rolling_out=_is_rolling_out(deployment, template, observation.previous.rollout),
    )


def lacks_gpu(pod: PodObservation, spec: ServiceSpec) -> bool:
    """Whether no node has a GPU left for the pod."""
    is_short = pod.trouble == UNSCHEDULABLE and "Insufficient nvidia.com/gpu" in (pod.trouble_message or "")
    return is_short and spec.engine.gpu_count > 0


def _is_stuck(pod: PodObservation, spec: ServiceSpec, now_s: float) -> bool:
    # A pod that served for long has as much time to come back as a new one has to come.
    since_s = pod.created_s if pod.unready_since_s is None else max(pod.created_s, pod.unready_since_s)
    return pod.trouble is not None or now_s - since_s > spec.engine.startup_timeout_s


def _deployed_replicas(deployment: Mapping[str, Any] | None) -> int | None:
    if deployment is None:
        return None
    replicas = (deployment.get("spec") or {}).get("replicas")
    return replicas if isinstance(replicas, int) else 1


def _is_rolling_out(
    deployment: Mapping[str, Any] | None, template: str | None, memory: RolloutMemory | None
) -> bool:
    if deployment is None:
        return False
    spec, status = deployment.get("spec") or {}, deployment.get("status") or {}
    if template is not None and template_hash(spec.get("template") or {}) != template:
        return True
    is_seen = (status.get("observedGeneration") or 0) >= (deployment["metadata"].get("generation") or 0)
    if not is_seen and memory is not None and memory.has_another:
        return True
    return (status.get("replicas") or 0) > (status.get("updatedReplicas") or 0)
