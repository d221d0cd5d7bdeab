"""The plan for a service that cannot be served as it stands: say why, and leave what runs alone."""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.spec import Invalid, ServiceSpec
from headrace_operator.api.status_document import condition_documents, tells_news
from headrace_operator.api.vocabulary import ConditionType
from headrace_operator.decide import events
from headrace_operator.decide.conditions import timed
from headrace_operator.decide.health import Finding
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.plan import Plan

_UNTOUCHED = (ConditionType.PROGRESSING, ConditionType.SCALING_ACTIVE, ConditionType.TUNING_ACTIVE)
_UNSEEN = (ConditionType.MODEL_LOADED, ConditionType.METRICS_AVAILABLE, ConditionType.SLO_MET)


def refuse_spec(observation: Observation, invalid: Invalid, *, now_s: float) -> Plan:
    """The spec does not validate: nothing is done until its generation changes."""
    return _refusal(
        observation,
        invalid.generation,
        accepted=Finding(ConditionType.ACCEPTED, "False", invalid.reason, invalid.message),
        now_s=now_s,
    )


def refuse_name(observation: Observation, spec: ServiceSpec, foreign: str, *, now_s: float) -> Plan:
    """Somebody else's object has the name of a child: it is left untouched."""
    message = f"{foreign} exists and belongs to somebody else; delete it or rename this service"
    return _refusal(
        observation,
        spec.generation,
        accepted=Finding(ConditionType.ACCEPTED, "False", "NameConflict", message),
        now_s=now_s,
    )


def _refusal(observation: Observation, generation: int, *, accepted: Finding, now_s: float) -> Plan:
    previous = observation.previous
    serving = sum(pod.ready and not pod.deleting for pod in observation.pods)
    ready = (
        Finding(ConditionType.READY, "True", "Serving", f"{serving} pods of an earlier spec serve")
        if serving
        else Finding(ConditionType.READY, "False", accepted.reason, accepted.message)
    )
    why = f"not before {ConditionType.ACCEPTED} is True"
    found = (
        ready,
        accepted,
        *(Finding(kind, "False", "NotAccepted", why) for kind in _UNTOUCHED),
        *(Finding(kind, "Unknown", "NotAccepted", why) for kind in _UNSEEN),
    )
    conditions = timed(found, previous, now_s=now_s)
    # What an earlier spec left is kept: the next accepted one goes on from it.
    document: dict[str, Any] = {
        **_kept(previous.raw),
        "observedGeneration": generation,
        "readyReplicas": serving,
        "conditions": condition_documents(conditions, generation),
    }
    news = tells_news(previous.raw, document, refresh_s=float("inf"), now_s=now_s)
    return Plan(
        status=document if news else None,
        events=tuple(event for event in events.of_conditions(previous, conditions) if news),
    )


def _kept(live: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in live.items() if name not in {"observed", "recommendation"}}
