"""From pods and Deployment to conditions: is it up, and if not, what first of all keeps it from that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace_operator.api.rollout_memory import RolloutMemory
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.api.vocabulary import ConditionType
from headrace_operator.decide.observation import DOWNLOAD_FAILED, PodObservation
from headrace_operator.decide.supply import Supply, lacks_gpu

_ENGINE_ENDED = frozenset(
    {"Error", "Completed", "CrashLoopBackOff", "RunContainerError", "StartError", "ContainerCannotRun"}
)
_IMAGE_LACKS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
)
_OUT_OF_MEMORY = "OOMKilled"
_SERVING = "Serving"
PODS_REFUSED = "PodsRefused"
FOREIGN_ENDPOINT = "ForeignEndpoint"
UNPINNED_REVISION = "UnpinnedRevision"
_STARTING = "Starting"
"""There is no pod yet."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition without its time."""

    type: ConditionType
    status: str
    reason: str
    message: str


def findings(
    spec: ServiceSpec,
    supply: Supply,
    *,
    desired: int,
    deployment: Mapping[str, Any] | None,
    accepted: Finding,
    foreign_pods: Sequence[str],
    memory: RolloutMemory,
) -> tuple[Finding, ...]:
    """Ready, Progressing and ModelLoaded."""
    ready = _ready(spec, supply, desired=desired, deployment=deployment)
    if ready.reason == _STARTING and accepted.status == "False":
        ready = Finding(ConditionType.READY, "False", accepted.reason, accepted.message)
    if ready.reason == _SERVING and foreign_pods:
        message = f"{ready.message}; requests also reach pods that are not its own: {', '.join(foreign_pods)}"
        ready = Finding(ConditionType.READY, "True", FOREIGN_ENDPOINT, message)
    return (
        ready,
        _progressing(spec, supply, desired=desired, deployment=deployment, memory=memory),
        _model_loaded(supply, desired=desired),
    )


def _ready(
    spec: ServiceSpec, supply: Supply, *, desired: int, deployment: Mapping[str, Any] | None
) -> Finding:
    if desired == 0:
        return Finding(ConditionType.READY, "True", "ScaledToZero", "no replica is asked for")
    needed, ready = min(desired, spec.scaling.min_replicas), len(supply.ready)
    if ready >= needed:
        return Finding(ConditionType.READY, "True", _SERVING, f"{ready} of {desired} pods serve")
    failed = first_failure(supply)
    if failed is not None:
        reason = failure_reason(failed, spec)
        return Finding(ConditionType.READY, "False", reason, failure_text(failed))
    refused = refused_text(deployment)
    if refused is not None:
        return Finding(ConditionType.READY, "False", PODS_REFUSED, refused)
    reason = "Loading" if supply.loading else _STARTING
    return Finding(ConditionType.READY, "False", reason, f"{ready} of {needed} needed pods serve")


def _progressing(
    spec: ServiceSpec,
    supply: Supply,
    *,
    desired: int,
    deployment: Mapping[str, Any] | None,
    memory: RolloutMemory,
) -> Finding:
    kind, late = ConditionType.PROGRESSING, first_failure(supply)
    if memory.failed is not None:
        message = f"back to the pods of the last spec that served; the new one: {memory.failed.message}"
        return Finding(kind, "False", "RolledBack", message)
    progress, refused, why = _condition(deployment, "Progressing"), refused_text(deployment), ""
    if late is not None:
        why = f"{failure_reason(late, spec)}: {failure_text(late)}"
    elif refused is not None:
        why = f"{PODS_REFUSED}: {refused}"
    if progress.get("status") == "False":
        message = why or str(progress.get("message") or "pods of the new spec do not become ready")
        return Finding(kind, "False", "RolloutBlocked", message)
    if memory.lacks_gpu_since_s is not None:
        return Finding(kind, "True", "RolloutBlocked", why)
    if supply.is_rolling_out:
        message = "pods are being replaced" + (f"; {why}" if why else "")
        return Finding(kind, "True", "RolloutInProgress", message)
    if supply.draining:
        names = ", ".join(pod.name for pod in supply.draining)
        return Finding(ConditionType.PROGRESSING, "True", "Draining", f"emptied before they go: {names}")
    if len(supply.ready) != desired:
        message = f"{len(supply.ready)} of {desired} pods serve" + (f"; {why}" if why else "")
        return Finding(ConditionType.PROGRESSING, "True", "Scaling", message)
    return Finding(ConditionType.PROGRESSING, "False", "RolloutComplete", f"{desired} pods as specified")


def _model_loaded(supply: Supply, *, desired: int) -> Finding:
    if supply.ready:
        return Finding(ConditionType.MODEL_LOADED, "True", "Loaded", f"loaded in {len(supply.ready)} pods")
    if desired == 0:
        return Finding(ConditionType.MODEL_LOADED, "Unknown", "ScaledToZero", "no replica is asked for")
    failed = first_failure(supply)
    if failed is None:
        return Finding(ConditionType.MODEL_LOADED, "False", "Loading", "no pod has loaded the model yet")
    if failed.trouble == _OUT_OF_MEMORY:
        return Finding(ConditionType.MODEL_LOADED, "False", "OutOfMemory", failure_text(failed))
    if failed.trouble == DOWNLOAD_FAILED:
        return Finding(ConditionType.MODEL_LOADED, "False", DOWNLOAD_FAILED, failure_text(failed))
    if failed.trouble in _ENGINE_ENDED or failed.trouble is None:
        return Finding(ConditionType.MODEL_LOADED, "False", "LoadFailed", failure_text(failed))
    return Finding(ConditionType.MODEL_LOADED, "Unknown", "NotStarted", failure_text(failed))


def first_failure(supply: Supply) -> PodObservation | None:
    """The pod to tell about: one with a named trouble before one that only takes too long.

    Where none is there to tell about, the latest that ended before it served.
    """
    stuck = min(supply.stuck, key=lambda pod: (pod.trouble is None, pod.name), default=None)
    if stuck is not None or supply.loading:
        return stuck
    return max(supply.ended, key=lambda pod: pod.created_s, default=None)


def failure_reason(pod: PodObservation, spec: ServiceSpec) -> str:
    """One word for what keeps a pod from running, the same through all steps of a retry."""
    if lacks_gpu(pod, spec):
        return "InsufficientGPU"
    if pod.trouble == _OUT_OF_MEMORY:
        return "OutOfMemory"
    if pod.trouble in _IMAGE_LACKS:
        return "ImagePullFailed"
    if pod.trouble in _ENGINE_ENDED:
        return "EngineFailed"
    word = "".join(letter for letter in pod.trouble or "" if letter.isascii() and letter.isalnum())[:63]
    return word or "ModelLoadFailed"


def failure_text(pod: PodObservation) -> str:
    """In a sentence, with what Kubernetes or the engine itself said last."""
    what = pod.trouble or "not ready within engine.startupTimeout"
    return f"pod {pod.name}: {what}" + (f": {pod.trouble_message}" if pod.trouble_message else "")


def refused_text(deployment: Mapping[str, Any] | None) -> str | None:
    """Why the API server makes no pod; None where it makes them."""
    refused = _condition(deployment, "ReplicaFailure")
    return (
        str(refused.get("message") or "pods cannot be created") if refused.get("status") == "True" else None
    )


def exceeds_gpu_quota(deployment: Mapping[str, Any] | None) -> bool:
    """Whether a ResourceQuota of GPUs keeps a pod from being made: another's end makes room for it."""
    refused = refused_text(deployment) or ""
    return "exceeded quota" in refused and "nvidia.com/gpu" in refused


def _condition(deployment: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any]:
    conditions = ((deployment or {}).get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == kind), {})
