"""The status as the API server keeps it, and whether writing it would tell anything new.

Measured numbers move all the time. A document that differs from the live one in those alone is written no
more often than `refresh_s`; anything else that differs is written at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace_operator.api.rollout_memory import RolloutMemory, rollout_document
from headrace_operator.api.status import Approval, Change, Condition, Enough, Input, Rejection, Setting
from headrace_operator.api.status_resource import MAX_COMMITS, MAX_HISTORY, MAX_MESSAGE_LENGTH
from headrace_operator.api.units import decimal_text, time_s, time_text

_MEASURED = frozenset({"observed"})
_MEASURED_IN_DECISION = frozenset({"message", "inputs", "alternatives"})
_MEASURED_CONDITIONS = frozenset(
    {"Progressing", "MetricsAvailable", "SLOMet", "SLOFeasible", "ScalingActive", "TuningActive"}
)


@dataclass(frozen=True, slots=True)
class StatusView:
    """What one decision has to say. `decision`, `observed` and `recommendation` are documents already."""

    generation: int
    replicas: int
    ready_replicas: int
    setting: Setting
    selector: str
    url: str
    model_commits: Sequence[str]
    limits_are_tuned: bool
    limits_since_s: float
    slo_key: str
    slo_since_s: float
    slo_targets: str
    binding_target: str | None
    overloaded_since_s: float | None
    enough: Sequence[Enough]
    scaled_down_at_s: float | None
    observed: Mapping[str, Any] | None
    decision: Mapping[str, Any]
    recommendation: Mapping[str, Any] | None
    approval: Approval | None
    history: Sequence[Change]
    conditions: Sequence[Condition]
    rollout: RolloutMemory


def status_document(view: StatusView) -> dict[str, Any]:
    """The whole document; what is not known is not in it."""
    limits = view.setting.limits
    return _known(
        {
            "observedGeneration": view.generation,
            "replicas": view.replicas,
            "readyReplicas": view.ready_replicas,
            "desiredReplicas": view.setting.replicas,
            "selector": view.selector,
            "url": view.url,
            "model": {"commits": list(view.model_commits[:MAX_COMMITS])} if view.model_commits else None,
            "summary": {
                "ready": f"{view.ready_replicas}/{view.setting.replicas}",
                "limits": f"{limits.max_num_seqs}/{limits.max_num_batched_tokens}",
            },
            "activeLimits": _active_limits(view),
            "observed": view.observed,
            "slo": _slo(view),
            "pressure": _pressure(view) or None,
            "decision": view.decision,
            "recommendation": view.recommendation,
            "approval": _approval(view.approval),
            "history": [_change(change) for change in view.history[:MAX_HISTORY]] or None,
            "rollout": rollout_document(view.rollout),
            "conditions": condition_documents(view.conditions, view.generation),
        }
    )


def _active_limits(view: StatusView) -> dict[str, Any]:
    limits = view.setting.limits
    return {
        "maxNumSeqs": limits.max_num_seqs,
        "maxNumBatchedTokens": limits.max_num_batched_tokens,
        "source": "Tuned" if view.limits_are_tuned else "Spec",
        "since": time_text(view.limits_since_s),
    }


def _slo(view: StatusView) -> dict[str, Any]:
    since = time_text(view.slo_since_s)
    return _known(
        {
            "key": view.slo_key,
            "since": since,
            "targets": view.slo_targets,
            "bindingTarget": view.binding_target,
        }
    )


def _pressure(view: StatusView) -> dict[str, Any]:
    levels = [{"replicas": level.replicas, "since": time_text(level.since_s)} for level in view.enough]
    return _known(
        {
            "overloadedSince": _optional_time(view.overloaded_since_s),
            "enough": levels or None,
            "scaledDownAt": _optional_time(view.scaled_down_at_s),
        }
    )


def _approval(approval: Approval | None) -> dict[str, Any] | None:
    if approval is None:
        return None
    message = message_text(approval.message)
    return {"value": message_text(approval.value), "outcome": approval.outcome, "message": message}


def condition_documents(conditions: Sequence[Condition], generation: int) -> list[dict[str, Any]]:
    """Conditions as `kubectl wait` reads them."""
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": message_text(condition.message),
            "lastTransitionTime": time_text(condition.since_s),
            "observedGeneration": generation,
        }
        for condition in conditions
    ]


def input_documents(inputs: Sequence[Input]) -> list[dict[str, Any]]:
    """What a decision was taken on."""
    return [_known({"name": item.name, "value": item.value, "target": item.target}) for item in inputs]


def alternative_documents(rejections: Sequence[Rejection]) -> list[dict[str, Any]]:
    """What was considered and not done."""
    return [
        {"action": item.action, "rejected": item.word, "message": message_text(item.message)}
        for item in rejections
    ]


def setting_document(setting: Setting) -> dict[str, Any]:
    return {
        "replicas": setting.replicas,
        "maxNumSeqs": setting.limits.max_num_seqs,
        "maxNumBatchedTokens": setting.limits.max_num_batched_tokens,
    }


def message_text(message: str) -> str:
    """A message that the schema takes: not too long, and Unicode throughout."""
    return message[:MAX_MESSAGE_LENGTH].encode("utf-8", "replace").decode()


def tells_news(
    live: Mapping[str, Any], document: Mapping[str, Any], *, refresh_s: float, now_s: float
) -> bool:
    """Whether the document is to be written over the live one."""
    if live == document:
        return False
    if _lasting(live) != _lasting(document):
        return True
    if "observed" not in live and "observed" not in document:
        # Nothing was measured, and only words moved: that it is still so is no news.
        return False
    observed = live.get("observed")
    written_s = time_s(observed.get("at")) if isinstance(observed, Mapping) else None
    return written_s is None or not 0 <= now_s - written_s < refresh_s


def _lasting(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without what was only measured."""
    kept = {name: value for name, value in document.items() if name not in _MEASURED}
    for name in ("decision", "recommendation"):
        value = kept.get(name)
        if isinstance(value, Mapping):
            kept[name] = {key: item for key, item in value.items() if key not in _MEASURED_IN_DECISION}
    conditions = kept.get("conditions")
    if isinstance(conditions, list):
        kept["conditions"] = [_lasting_condition(item) for item in conditions]
    if isinstance(kept.get("slo"), Mapping):
        kept["slo"] = {key: value for key, value in kept["slo"].items() if key != "bindingTarget"}
    return kept


def _lasting_condition(condition: Any) -> Any:
    if not isinstance(condition, Mapping) or condition.get("type") not in _MEASURED_CONDITIONS:
        return condition
    return {key: value for key, value in condition.items() if key != "message"}


def _change(change: Change) -> dict[str, Any]:
    return _known(
        {
            "id": change.id,
            "at": time_text(change.at_s),
            "generation": change.generation,
            "action": change.action,
            "reason": change.reason,
            "message": message_text(change.message),
            "before": setting_document(change.before),
            "after": setting_document(change.after),
            "attainment": _optional_decimal(change.attainment_ratio, 3),
            "requestsPerSecond": _optional_decimal(change.arrivals_per_s, 2),
            "tokensPerSecond": _optional_decimal(change.tokens_per_s, 1),
            "outcome": change.outcome,
            "inputs": input_documents(change.inputs) or None,
            "alternatives": alternative_documents(change.rejections) or None,
            "approved": change.approved or None,
        }
    )


def _known(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


def _optional_time(at_s: float | None) -> str | None:
    return None if at_s is None else time_text(at_s)


def _optional_decimal(value: float | None, digits: int) -> str | None:
    return None if value is None else decimal_text(value, digits)
