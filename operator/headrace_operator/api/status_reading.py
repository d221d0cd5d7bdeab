"""The status read back: whatever JSON stands there becomes `Previous`, and nothing in it is trusted.

A value of the wrong type, out of range or unknown is None, an unreadable change is left out. Nothing raises.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from headrace_operator.api.rollout_memory import read_rollout
from headrace_operator.api.spec import Limits
from headrace_operator.api.status import (
    Approval,
    Change,
    Condition,
    Enough,
    Input,
    Previous,
    Recommended,
    Rejection,
    Setting,
)
from headrace_operator.api.status_resource import MAX_ALTERNATIVES, MAX_HISTORY, MAX_INPUTS, MAX_LEVELS
from headrace_operator.api.units import time_s
from headrace_operator.api.vocabulary import Action, ApprovalOutcome, Outcome, Reason

Word = TypeVar("Word", bound=StrEnum)
Item = TypeVar("Item")


def read(raw: Any) -> Previous:
    """The status in `raw`, None where there is none. Never raises."""
    document = _mapping(raw)
    limits, pressure = _mapping(document.get("activeLimits")), _mapping(document.get("pressure"))
    decision, slo = _mapping(document.get("decision")), _mapping(document.get("slo"))
    history = (_change(item) for item in _items(document.get("history"))[:MAX_HISTORY])
    conditions = (_condition(item) for item in _items(document.get("conditions")))
    return Previous(
        desired_replicas=_count(document.get("desiredReplicas")),
        limits=_limits(limits),
        limits_are_tuned=limits.get("source") != "Spec",
        limits_since_s=time_s(limits.get("since")),
        slo_key=_text(slo.get("key")),
        slo_since_s=time_s(slo.get("since")),
        slo_targets=_text(slo.get("targets")),
        overloaded_since_s=time_s(pressure.get("overloadedSince")),
        enough=_levels(pressure.get("enough")),
        scaled_down_at_s=time_s(pressure.get("scaledDownAt")),
        decision_id=_text(decision.get("id")),
        decided_at_s=time_s(decision.get("at")),
        action=_member(Action, decision.get("action")),
        reason=_member(Reason, decision.get("reason")),
        recommended=_recommended(document.get("recommendation")),
        approval=_approval(document.get("approval")),
        history=tuple(change for change in history if change is not None),
        conditions=tuple(condition for condition in conditions if condition is not None),
        rollout=read_rollout(document.get("rollout")),
        raw=document,
    )


def _present(items: Iterable[Item | None]) -> Iterator[Item]:
    return (item for item in items if item is not None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**53 else None


def _number(value: Any) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _member(words: type[Word], value: Any) -> Word | None:
    return words(value) if isinstance(value, str) and value in set(words) else None


def _limits(document: Mapping[str, Any]) -> Limits | None:
    seqs, tokens = _count(document.get("maxNumSeqs")), _count(document.get("maxNumBatchedTokens"))
    return Limits(seqs, tokens) if seqs and tokens else None


def _levels(value: Any) -> tuple[Enough, ...]:
    """In the order in which they are written; what breaks it is left out."""
    levels: list[Enough] = []
    for item in map(_mapping, _items(value)[:MAX_LEVELS]):
        replicas, since_s = _count(item.get("replicas")), time_s(item.get("since"))
        if replicas is None or since_s is None:
            continue
        if not levels or (replicas < levels[-1].replicas and since_s >= levels[-1].since_s):
            levels.append(Enough(replicas, since_s))
    return tuple(levels)


def _setting(value: Any) -> Setting | None:
    document = _mapping(value)
    replicas, limits = _count(document.get("replicas")), _limits(document)
    return Setting(replicas, limits) if replicas is not None and limits is not None else None


def _recommended(value: Any) -> Recommended | None:
    document = _mapping(value)
    since_s, action = time_s(document.get("at")), _member(Action, document.get("action"))
    after = _setting(document.get("after"))
    return Recommended(since_s, action, after) if since_s is not None and action and after else None


def _approval(value: Any) -> Approval | None:
    document = _mapping(value)
    asked, outcome = _text(document.get("value")), _member(ApprovalOutcome, document.get("outcome"))
    return Approval(asked, outcome, _text(document.get("message")) or "") if asked and outcome else None


def _change(value: Any) -> Change | None:
    document = _mapping(value)
    identity, at_s = _text(document.get("id")), time_s(document.get("at"))
    action, reason = _member(Action, document.get("action")), _member(Reason, document.get("reason"))
    before, after = _setting(document.get("before")), _setting(document.get("after"))
    if (
        identity is None
        or at_s is None
        or action is None
        or reason is None
        or before is None
        or after is None
    ):
        return None
    return Change(
        id=identity,
        at_s=at_s,
        generation=_count(document.get("generation")) or 0,
        action=action,
        reason=reason,
        message=_text(document.get("message")) or "",
        before=before,
        after=after,
        attainment_ratio=_number(document.get("attainment")),
        arrivals_per_s=_number(document.get("requestsPerSecond")),
        tokens_per_s=_number(document.get("tokensPerSecond")),
        outcome=_member(Outcome, document.get("outcome")),
        inputs=tuple(_present(map(_input, _items(document.get("inputs"))[:MAX_INPUTS]))),
        rejections=tuple(_present(map(_rejection, _items(document.get("alternatives"))[:MAX_ALTERNATIVES]))),
        approved=document.get("approved") is True,
    )


def _input(value: Any) -> Input | None:
    document = _mapping(value)
    name, number = _text(document.get("name")), _text(document.get("value"))
    return Input(name, number, _text(document.get("target"))) if name and number else None


def _rejection(value: Any) -> Rejection | None:
    document = _mapping(value)
    action, word = _member(Action, document.get("action")), _text(document.get("rejected"))
    return Rejection(action, word, _text(document.get("message")) or "") if action and word else None


def _condition(value: Any) -> Condition | None:
    document = _mapping(value)
    kind, status, reason = (_text(document.get(key)) for key in ("type", "status", "reason"))
    since_s = time_s(document.get("lastTransitionTime"))
    if kind is None or status is None or reason is None or since_s is None:
        return None
    return Condition(kind, status, reason, _text(document.get("message")) or "", since_s)
