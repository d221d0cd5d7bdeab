"""What is told as Kubernetes Events: that something changed, once, and never that it is still so."""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace_operator.api.status import Approval, Change, Condition, Previous
from headrace_operator.api.vocabulary import Action, ConditionType
from headrace_operator.decide.conditions import POD_REPORTS_IMPLAUSIBLE
from headrace_operator.decide.conflict import SCALED_AGAIN
from headrace_operator.decide.explain import limits_text
from headrace_operator.decide.health import FOREIGN_ENDPOINT, UNPINNED_REVISION
from headrace_operator.decide.plan import Event

_SAID: Mapping[tuple[ConditionType, str], tuple[str, str]] = {
    (ConditionType.READY, "True"): ("Normal", "Ready"),
    (ConditionType.MODEL_LOADED, "True"): ("Normal", "ModelLoaded"),
    (ConditionType.METRICS_AVAILABLE, "False"): ("Warning", "MetricsLost"),
    (ConditionType.SLO_MET, "False"): ("Warning", "SLOBreached"),
    (ConditionType.SLO_FEASIBLE, "False"): ("Warning", "SLOInfeasible"),
    (ConditionType.CONFLICT, "True"): ("Warning", "Conflict"),
}

_WARNED = frozenset(
    {
        SCALED_AGAIN,
        "RolloutBlocked",
        "RolledBack",
        FOREIGN_ENDPOINT,
        POD_REPORTS_IMPLAUSIBLE,
        UNPINNED_REVISION,
    }
)
"""Reasons that are news whatever the condition says."""


def of_change(change: Change) -> Event:
    """An applied decision."""
    if change.action in {Action.SCALE_UP, Action.SCALE_DOWN}:
        message = f"New size: {change.after.replicas}; reason: {change.reason}: {change.message}"
        return Event("Normal", "SuccessfulRescale", message)
    moved = f"{limits_text(change.before.limits)} to {limits_text(change.after.limits)}"
    message = f"Limits {moved}; reason: {change.reason}: {change.message}"
    if change.action is Action.ROLL_BACK_LIMITS:
        return Event("Warning", "LimitsRolledBack", message)
    return Event("Normal", "LimitsTuned", message)


def of_approval(previous: Previous, approval: Approval | None) -> tuple[Event, ...]:
    """The answer to an approval, when it is given."""
    if approval is None or approval == previous.approval:
        return ()
    if approval.is_applied:
        return (Event("Normal", "RecommendationApproved", approval.message),)
    return (Event("Warning", "ApprovalRefused", approval.message),)


def of_recommendation(previous: Previous, recommendation: Mapping[str, Any] | None) -> tuple[Event, ...]:
    """A recommendation that is another than before. Limits follow the load from look to look: by how much
    they are to move is no news, or it would crowd out what is.
    """
    if recommendation is None or recommendation["action"] == Action.HOLD:
        return ()
    live = previous.raw.get("recommendation")
    if isinstance(live, Mapping) and _gist(live) == _gist(recommendation):
        return ()
    message = f"{recommendation['action']}: {recommendation['message']}"
    return (Event("Normal", "RecommendationChanged", message),)


def _gist(recommendation: Mapping[str, Any]) -> tuple[Any, Any]:
    after = recommendation.get("after")
    return recommendation.get("action"), after.get("replicas") if isinstance(after, Mapping) else None


def of_conditions(previous: Previous, conditions: Iterable[Condition]) -> tuple[Event, ...]:
    """Conditions that flipped; and of Ready and Accepted each other reason for not being so."""
    known = {condition.type: condition for condition in previous.conditions}
    said = (_of_condition(known.get(condition.type), condition) for condition in conditions)
    return tuple(event for event in said if event is not None)


def _of_condition(before: Condition | None, now: Condition) -> Event | None:
    flipped = before is None or before.status != now.status
    kind = ConditionType(now.type)
    if now.status == "False" and kind in {ConditionType.READY, ConditionType.ACCEPTED}:
        # A new service is not ready, of course: only a named trouble is news.
        starts = before is None and now.reason in {"Loading", "Starting"}
        changed = flipped or (before is not None and before.reason != now.reason)
        is_trouble = now.reason not in {"Loading", "Starting"} or (
            before is not None and before.status == "True"
        )
        return Event("Warning", now.reason, now.message) if changed and is_trouble and not starts else None
    if now.reason in _WARNED and (before is None or before.reason != now.reason):
        return Event("Warning", now.reason, now.message)
    if not flipped or (kind, now.status) not in _SAID:
        return _restored(before, now, kind)
    type_, reason = _SAID[kind, now.status]
    return Event("Warning" if type_ == "Warning" else "Normal", reason, now.message)


def _restored(before: Condition | None, now: Condition, kind: ConditionType) -> Event | None:
    was_breached = before is not None and before.status == "False"
    if kind is ConditionType.SLO_MET and was_breached and now.status == "True":
        return Event("Normal", "SLORestored", now.message)
    if kind is ConditionType.METRICS_AVAILABLE and was_breached and now.status == "True":
        return Event("Normal", "MetricsFound", now.message)
    return None
