"""The plan for a service that cannot be served as it stands: say why, and leave what runs alone.

And what Accepted says of a spec that is valid, but of which the API server will not take something.
"""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.spec import Invalid, ServiceSpec
from headrace_operator.api.status import Previous
from headrace_operator.api.status_document import condition_documents, tells_news
from headrace_operator.api.vocabulary import ConditionType
from headrace_operator.decide import events
from headrace_operator.decide.conditions import timed
from headrace_operator.decide.health import UNPINNED_REVISION, Finding
from headrace_operator.decide.observation import Observation, Refused
from headrace_operator.decide.plan import Plan

_UNTOUCHED = (ConditionType.PROGRESSING, ConditionType.SCALING_ACTIVE, ConditionType.TUNING_ACTIVE)
_UNSEEN = (
    ConditionType.MODEL_LOADED,
    ConditionType.METRICS_AVAILABLE,
    ConditionType.SLO_MET,
    ConditionType.SLO_FEASIBLE,
    ConditionType.CONFLICT,
)
FORBIDDEN, WRITE_REFUSED = "Forbidden", "WriteRefused"


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


def refuse_access(previous: Previous, generation: int, refused: Refused, *, now_s: float) -> Plan:
    """Something that a decision needs may not be read: what was said last stands, but for Accepted."""
    accepted = Finding(ConditionType.ACCEPTED, "False", refused.reason, refused.message)
    kept = [
        Finding(ConditionType(known.type), known.status, known.reason, known.message)
        for known in previous.conditions
        if known.type in set(ConditionType) - {ConditionType.ACCEPTED}
    ]
    unknown = Finding(ConditionType.READY, "Unknown", refused.reason, refused.message)
    conditions = timed([*(kept or [unknown]), accepted], previous, now_s=now_s)
    document = {
        **previous.raw,
        "observedGeneration": generation,
        "conditions": condition_documents(conditions, generation),
    }
    if not tells_news(previous.raw, document, refresh_s=float("inf"), now_s=now_s):
        return Plan()
    return Plan(status=document, events=events.of_conditions(previous, conditions))


def accepted(observation: Observation, spec: ServiceSpec, *, is_written: bool) -> Finding:
    """Of a valid spec: whether all that it asks for could be written.

    What was refused stays said until nothing is left to write, so that a new leader does not unsay it.
    """
    kind, refused = ConditionType.ACCEPTED, observation.refused
    if refused is not None:
        return Finding(kind, "False", refused.reason, refused.message)
    known = next((found for found in observation.previous.conditions if found.type == kind), None)
    if not is_written and known is not None and known.reason in {FORBIDDEN, WRITE_REFUSED}:
        return Finding(kind, "False", known.reason, known.message)
    if not spec.model.is_pinned:
        return Finding(kind, "True", UNPINNED_REVISION, _unpinned(observation, spec))
    return Finding(kind, "True", "Valid", "the spec is being served")


def _unpinned(observation: Observation, spec: ServiceSpec) -> str:
    served = sorted({pod.model_commit for pod in observation.pods if pod.model_commit and not pod.deleting})
    if len(served) > 1:
        return f"{spec.model.uri} has changed: pods serve {' and '.join(served)}; set model.revision to one"
    commit = served[0] if served else "a commit"
    return f"{spec.model.uri} may change between two pods: set model.revision to {commit}"


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
