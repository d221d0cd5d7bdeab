"""Whether somebody else scales what Headrace scales. Two that do would undo each other for ever.

| seen | Conflict | replicas |
| --- | --- | --- |
| an autoscaler on the Deployment, in any mode | AutoscalerOnDeployment | left to it |
| an autoscaler on the service, with Auto or Recommend | AutoscalerOnService | held: it pins them |
| the Deployment's scale was set by another | ScaledByAnother | set back, once |
| the same again, within `PATIENCE_S` of the first time | ScaledAgain | left to it until then |

An autoscaler on `/scale` of a service with External is as it should be. The conditions are the memory.
"""

from dataclasses import dataclass

from headrace_operator.api.names import engine_name
from headrace_operator.api.spec import ScalingMode, ServiceSpec
from headrace_operator.api.status import Previous
from headrace_operator.api.vocabulary import ConditionType
from headrace_operator.decide.health import Finding
from headrace_operator.decide.observation import Observation

PATIENCE_S = 600.0
SCALED_BY_ANOTHER, SCALED_AGAIN = "ScaledByAnother", "ScaledAgain"
_DECIDING = frozenset({ScalingMode.AUTO, ScalingMode.RECOMMEND})


@dataclass(frozen=True, slots=True)
class Conflict:
    """Who else scales, in a sentence that names it."""

    reason: str
    message: str
    leaves_deployment: bool
    """Whether the Deployment's number is left as the other sets it."""
    stops_scaling: bool


def conflict(
    observation: Observation, spec: ServiceSpec, previous: Previous, *, now_s: float
) -> Conflict | None:
    """The conflict of now; None where there is none to be seen."""
    deployment = f"Deployment {engine_name(spec.name)}"
    for rival in observation.autoscalers or ():
        if rival.is_of_deployment:
            message = f"{rival.name} scales {deployment}: delete it, or let it scale the InferenceService"
            return Conflict("AutoscalerOnDeployment", message, leaves_deployment=True, stops_scaling=True)
        if spec.scaling.mode in _DECIDING:
            message = f"{rival.name} scales this service too: delete it, or set scaling.mode to External"
            return Conflict("AutoscalerOnService", message, leaves_deployment=False, stops_scaling=True)
    return _by_hand(observation, previous, deployment, now_s=now_s)


def finding(observation: Observation, present: Conflict | None) -> Finding:
    """Condition Conflict."""
    kind = ConditionType.CONFLICT
    if present is not None:
        return Finding(kind, "True", present.reason, present.message)
    if observation.autoscalers is None:
        return Finding(kind, "Unknown", "Forbidden", "HorizontalPodAutoscalers may not be listed")
    return Finding(kind, "False", "NoConflict", "nobody else scales the service")


def _by_hand(
    observation: Observation, previous: Previous, deployment: str, *, now_s: float
) -> Conflict | None:
    """Scaled through the Deployment's `/scale` by something that is no autoscaler of Kubernetes."""
    known = next((seen for seen in previous.conditions if seen.type == ConditionType.CONFLICT), None)
    if known is None or known.status != "True":
        known = None
    elif now_s - known.since_s >= PATIENCE_S:
        # Over for one look, so that whoever goes on is counted from a first time again.
        return None
    before = None if known is None else known.reason
    if known is not None and before == SCALED_AGAIN:
        return Conflict(SCALED_AGAIN, known.message, leaves_deployment=True, stops_scaling=True)
    if observation.scaled_by is not None:
        message = f"{observation.scaled_by} scales {deployment}"
        if before == SCALED_BY_ANOTHER:
            again = f"{message} again and again: let it scale the InferenceService instead"
            return Conflict(SCALED_AGAIN, again, leaves_deployment=True, stops_scaling=True)
        told = f"{message}: set back"
        return Conflict(SCALED_BY_ANOTHER, told, leaves_deployment=False, stops_scaling=False)
    if known is not None and before == SCALED_BY_ANOTHER:
        return Conflict(SCALED_BY_ANOTHER, known.message, leaves_deployment=False, stops_scaling=False)
    return None
