"""A turn's report on the link, as JSON: what all streams cost in every step, so it is kept lean.

A request travels to the core once, when it is submitted; a report names it by its id, and the reader, which
has it still, puts it back. Tokens are bare triples, the other events pairs of name and fields. JSON has no
infinity: a log probability of minus infinity travels as null.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from headrace_engine.core.limits import Limits
from headrace_engine.core.plan import (
    Event,
    Finished,
    Hold,
    Preempted,
    PromptLogprobs,
    Rejection,
    Scheduled,
    Tokens,
    new_tokens,
)
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.core.snapshot import Snapshot
from headrace_engine.core.step_model import StepWork
from headrace_engine.telemetry.report import Step, StepReport


def encode(report: StepReport) -> bytes:
    events = [event if type(event) is Tokens else (type(event).__name__, event) for event in report.events]
    return orjson.dumps(
        {
            "now_s": report.now_s,
            "accepted": [request.request_id for request in report.accepted],
            "rejected": [(request.request_id, rejection) for request, rejection in report.rejected],
            "events": events,
            "step": report.step,
            "limits": report.limits,
            "snapshot": report.snapshot,
        },
        default=_listed,
    )


def decode(payload: bytes, requests: Mapping[str, Request]) -> StepReport:
    """`requests` has every one that was submitted and has not ended.

    Raises:
        KeyError: the report speaks of another.
    """
    told = orjson.loads(payload)
    return StepReport(
        now_s=told["now_s"],
        accepted=tuple(requests[name] for name in told["accepted"]),
        rejected=tuple((requests[name], Rejection(**why)) for name, why in told["rejected"]),
        events=tuple(map(_event, told["events"])),
        step=None if told["step"] is None else _step(**told["step"]),
        limits=Limits(**told["limits"]),
        snapshot=Snapshot(**told["snapshot"]),
    )


def _listed(value: Any) -> Any:
    """Named tuples, which JSON has only as lists."""
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} does not travel")


def _event(told: list[Any]) -> Event:
    if len(told) == 2:
        return _NAMED[told[0]](told[1])
    request_id, token_ids, logprobs = told
    return new_tokens((request_id, token_ids, None if logprobs is None else [*map(_logprobs, logprobs)]))


def _finished(told: dict[str, Any]) -> Finished:
    stop = told.pop("stop_logprobs")
    reason = FinishReason(told.pop("reason"))
    return Finished(**told, reason=reason, stop_logprobs=None if stop is None else _logprobs(stop))


_NAMED: dict[str, Callable[[Any], Event]] = {
    "Scheduled": lambda told: Scheduled(**told),
    "Preempted": lambda told: Preempted(**told),
    "PromptLogprobs": lambda told: PromptLogprobs(told["request_id"], [*map(_logprobs, told["logprobs"])]),
    "Finished": _finished,
}


def _logprobs(told: list[Any]) -> TokenLogprobs:
    logprob, rank, top_ids, top_logprobs = told
    return TokenLogprobs(_finite(logprob), rank, tuple(top_ids), tuple(map(_finite, top_logprobs)))


def _finite(told: float | None) -> float:
    return -math.inf if told is None else told


def _step(*, work: dict[str, Any], holds: list[str], **counts: Any) -> Step:
    return Step(**counts, work=StepWork(**work), holds=tuple(map(Hold, holds)))
