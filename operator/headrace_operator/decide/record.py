"""Decisions and measurements as the status shows them, and the history of what was applied."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace_operator.api.spec import ServiceSpec
from headrace_operator.api.status import Change, Previous, Setting
from headrace_operator.api.status_document import (
    alternative_documents,
    input_documents,
    message_text,
    setting_document,
)
from headrace_operator.api.status_resource import MAX_HISTORY
from headrace_operator.api.units import decimal_text, duration_text, time_text
from headrace_operator.api.vocabulary import Outcome
from headrace_operator.decide.approval import Advice
from headrace_operator.decide.decision import Decision
from headrace_operator.decide.load import Load
from headrace_operator.decide.observation import Mix, StepWork, Window
from headrace_operator.decide.slo import finished


def decision_id(spec: ServiceSpec, decision: Decision, *, at_s: float) -> str:
    """Eight hex digits of this decision alone, the same in every replica of the operator."""
    text = f"{spec.uid}/{spec.generation}/{decision.action}/{decision.reason}/{int(at_s)}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def decision_document(
    decision: Decision, *, identity: str, at_s: float, before: Setting, is_applied: bool
) -> dict[str, Any]:
    """`status.decision`."""
    return {
        "id": identity,
        "at": time_text(at_s),
        "action": decision.action,
        "reason": decision.reason,
        "message": message_text(decision.message),
        "applied": is_applied,
        "before": setting_document(before),
        "after": setting_document(decision.after),
        **_limited_by(decision),
        "inputs": input_documents(decision.inputs),
        "alternatives": alternative_documents(decision.rejections),
    }


def recommendation_document(advised: Advice) -> dict[str, Any]:
    """`status.recommendation`."""
    decision = advised.decision
    return {
        "id": advised.identity,
        "at": time_text(advised.since_s),
        "action": decision.action,
        "reason": decision.reason,
        "message": message_text(decision.message),
        "after": setting_document(decision.after),
        **_limited_by(decision),
    }


def _limited_by(decision: Decision) -> dict[str, Any]:
    return {} if decision.limited_by is None else {"limitedBy": decision.limited_by}


def observed_document(window: Window | None, attainment_ratio: float | None) -> Mapping[str, Any] | None:
    """`status.observed`: one SLO window; None before the first scrape."""
    if window is None:
        return None
    span_s = window.span_s
    tokens = _sum(window.prompt_tokens, window.generation_tokens)
    rows = {
        "requestsPerSecond": _rate(window.arrivals, span_s, 2),
        "tokensPerSecond": _rate(tokens, span_s, 1),
        "queueTimeP95": _p95(window.queue_time_s),
        "ttftP95": _p95(window.ttft_s),
        "itlP95": _p95(window.itl_s),
        "e2eP95": _p95(window.e2e_s),
        "attainment": _decimal(attainment_ratio, 3),
        "finished": finished(window),
        "runningPerPod": _decimal(window.running_per_pod, 1),
        "waiting": _decimal(window.waiting, 1),
        "kvUsage": _decimal(window.kv_used_ratio, 2),
        "preemptionsPerMinute": _rate(window.preemptions, span_s / 60, 1),
        "mix": None if window.mix is None else _mix_document(window.mix),
        "steps": None if window.step_work is None else _steps_document(window.step_work),
    }
    return {
        "at": time_text(window.end_s),
        "window": duration_text(span_s),
        "podsReporting": f"{window.pods_reporting}/{window.pods_expected}",
        **_known(rows),
    }


def _mix_document(mix: Mix) -> dict[str, Any]:
    return _known(
        {
            "at": time_text(mix.newest_s),
            "requests": mix.requests,
            "promptTokensP50": _whole(mix.prompt_tokens_p50),
            "promptTokensP95": _whole(mix.prompt_tokens_p95),
            "outputTokensP50": _whole(mix.output_tokens_p50),
            "outputTokensP95": _whole(mix.output_tokens_p95),
            "cachedShare": _decimal(mix.cached_ratio, 2),
        }
    )


def _steps_document(work: StepWork) -> dict[str, Any]:
    return _known(
        {
            "at": time_text(work.newest_s),
            "steps": work.steps,
            "durationP50": _duration(work.duration_p50_s),
            "durationP95": _duration(work.duration_p95_s),
            "tokensP95": _whole(work.tokens_p95),
        }
    )


def history(previous: Previous, applied: Change | None, *, judged: Outcome | None) -> tuple[Change, ...]:
    """The last changes, newest first, the latest earlier one with its outcome."""
    past = previous.history
    if judged is not None and past:
        past = (replace(past[0], outcome=judged), *past[1:])
    return ((applied, *past) if applied is not None else past)[:MAX_HISTORY]


def change(
    spec: ServiceSpec,
    decision: Decision,
    load: Load | None,
    *,
    identity: str,
    before: Setting,
    at_s: float,
    approved: bool,
) -> Change:
    """A decision that is being carried out, for the history."""
    return Change(
        id=identity,
        at_s=at_s,
        generation=spec.generation,
        action=decision.action,
        reason=decision.reason,
        message=decision.message,
        before=before,
        after=decision.after,
        attainment_ratio=load.attainment_ratio if load is not None else None,
        arrivals_per_s=load.arrivals_per_s if load is not None else None,
        tokens_per_s=load.tokens_per_s if load is not None else None,
        inputs=decision.inputs,
        rejections=decision.rejections,
        approved=approved,
    )


def _p95(histogram: Any) -> str | None:
    return _duration(histogram.quantile(0.95) if histogram is not None else None)


def _duration(value_s: float | None) -> str | None:
    return None if value_s is None else duration_text(value_s)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _known(rows: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rows.items() if value is not None}


def _rate(count: int | None, span: float, digits: int) -> str | None:
    return decimal_text(count / span, digits) if count is not None and span > 0 else None


def _sum(one: int | None, other: int | None) -> int | None:
    return one + other if one is not None and other is not None else None


def _decimal(value: float | None, digits: int) -> str | None:
    return None if value is None else decimal_text(value, digits)
