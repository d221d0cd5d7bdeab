"""One answer of an engine's telemetry, from a source that is not trusted. Pure.

Everything is bounded before it is taken: how many records, how long the cursor, every number. A record with a
number that no engine can have is left out and counted: missing, never zero. Ages are by the engine's own
clock, so that nothing depends on how far its wall clock is off.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

MOST_TOKENS = 4_194_304
LONGEST_STEP_S = 3600.0
SERVED = frozenset({"stop", "length"})
"""Outcomes of requests that were answered to their end."""
_CURSOR = re.compile(r"[0-9A-Za-z._-]{1,64}")


class PageError(ValueError):
    """The answer is none of an engine, or breaks a bound; all of it is left out."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    age_s: float
    """Since it ended, at the time of the answer."""
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Step:
    age_s: float
    duration_s: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Page:
    cursor: str
    more: bool
    """There are records after these."""
    has_gap: bool
    """Records before these are lost."""
    requests: tuple[ServedRequest, ...]
    steps: tuple[Step, ...]
    implausible: int
    """Records that were left out."""


Record = TypeVar("Record", ServedRequest, Step)


class _ImplausibleError(ValueError):
    """A record that no engine can have written."""


def page(document: Mapping[str, Any], *, limit: int) -> Page:
    """`limit`: most records of each kind, as they were asked for. Raises `PageError`."""
    cursor = document.get("cursor")
    if not (isinstance(cursor, str) and _CURSOR.fullmatch(cursor)):
        raise PageError("the answer has no cursor to go on from")
    try:
        now_s = _number(document, "now_s", most=math.inf)
    except _ImplausibleError as error:
        raise PageError(str(error)) from error
    raw_requests, raw_steps = (_records(document, kind, limit) for kind in ("requests", "steps"))
    requests = [_kept(_request, raw, now_s) for raw in raw_requests if _is_served(raw)]
    steps = [_kept(_step, raw, now_s) for raw in raw_steps]
    return Page(
        cursor=cursor,
        more=document.get("more") is True,
        has_gap=_has_gap(document.get("lost")),
        requests=tuple(record for record in requests if record is not None),
        steps=tuple(record for record in steps if record is not None),
        implausible=requests.count(None) + steps.count(None),
    )


def _records(document: Mapping[str, Any], kind: str, limit: int) -> list[Any]:
    records = document.get(kind)
    if not isinstance(records, list) or len(records) > limit:
        raise PageError(f"{kind} is no list of at most {limit} records")
    return records


def _is_served(raw: Any) -> bool:
    """One that is no record at all is not passed over, so that it is counted."""
    if not isinstance(raw, Mapping):
        return True
    outcome = raw.get("outcome")
    return not isinstance(outcome, str) or outcome in SERVED


def _kept(read: Callable[[Mapping[str, Any], float], Record], raw: Any, now_s: float) -> Record | None:
    if not isinstance(raw, Mapping):
        return None
    try:
        return read(raw, now_s)
    except _ImplausibleError:
        return None


def _request(raw: Mapping[str, Any], now_s: float) -> ServedRequest:
    if not isinstance(raw.get("outcome"), str):
        raise _ImplausibleError("outcome is no word")
    prompt_tokens = _count(raw, "prompt_tokens", most=MOST_TOKENS)
    return ServedRequest(
        age_s=now_s - _number(raw, "ended_s", most=now_s),
        prompt_tokens=prompt_tokens,
        cached_tokens=_count(raw, "cached_tokens", most=prompt_tokens),
        output_tokens=_count(raw, "output_tokens", most=MOST_TOKENS),
    )


def _step(raw: Mapping[str, Any], now_s: float) -> Step:
    tokens = [_count(raw, name, most=MOST_TOKENS) for name in ("prefill_tokens", "decode_tokens")]
    return Step(
        age_s=now_s - _number(raw, "ended_s", most=now_s),
        duration_s=_number(raw, "duration_s", most=LONGEST_STEP_S),
        tokens=sum(tokens),
    )


def _number(raw: Mapping[str, Any], name: str, *, most: float) -> float:
    value: Any = raw.get(name)
    if type(value) not in (int, float) or not 0 <= value <= most or value == math.inf:
        raise _ImplausibleError(f"{name} is no number that it can be")
    return float(value)


def _count(raw: Mapping[str, Any], name: str, *, most: int) -> int:
    value = raw.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise _ImplausibleError(f"{name} is no count that it can be")
    return value


def _has_gap(lost: Any) -> bool:
    """`lost` is null after a new start of the engine; what is no count tells of no whole record either."""
    return not isinstance(lost, Mapping) or any(lost.get(kind) != 0 for kind in ("steps", "requests"))
