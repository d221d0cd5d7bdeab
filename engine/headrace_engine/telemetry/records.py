"""Step and request records: what a simulator of this engine is calibrated and replayed with.

One record a step and one a request that ended or was refused, in two rings of fixed size. They hold counts,
times and names of limits: no text, no token ids, no id of a request. A reader resumes by the cursor that the
last answer gave; what the rings dropped meanwhile is counted in the answer. Times are seconds on the engine's
monotonic clock; every answer gives that clock's reading and Unix time beside each other.
"""

import re
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from headrace_engine.telemetry.report import Step, StepReport
from headrace_engine.telemetry.ring import Page, Ring
from headrace_engine.telemetry.timeline import Timeline

KEPT_STEPS = 16_384
KEPT_REQUESTS = 8_192
"""Minutes of a busy engine, in about ten MiB together."""
MOST_RECORDS = 10_000
"""Of each kind in one answer: a few milliseconds of rendering."""
_CURSOR = re.compile(r"([0-9a-f]{8})\.([0-9]{1,15})\.([0-9]{1,15})")


class CursorError(ValueError):
    """A cursor that no answer gave."""


class StepRecord(NamedTuple):
    """One step that was computed."""

    ended_s: float
    step: Step
    num_running: int
    num_waiting: int

    def document(self) -> dict[str, Any]:
        step = self.step
        return {
            "ended_s": self.ended_s,
            "duration_s": step.duration_s,
            "num_seqs": step.num_seqs,
            "prefill_tokens": step.num_prefill_tokens,
            "decode_tokens": step.num_decode_tokens,
            "context_tokens": step.context_tokens,
            "decode_context_tokens": step.work.decode_context_tokens,
            "prefill_attention_tokens": step.work.prefill_attention_tokens,
            "num_running": self.num_running,
            "num_waiting": self.num_waiting,
        }


class RequestRecord(NamedTuple):
    """One request that ended, or was refused."""

    arrival_s: float
    first_scheduled_s: float | None
    first_token_s: float | None
    ended_s: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    max_tokens: int
    preemptions: int
    priority: int
    tenant: str
    outcome: str

    @classmethod
    def of(cls, timeline: Timeline) -> "RequestRecord":
        request = timeline.request
        return cls(
            arrival_s=timeline.arrival_s,
            first_scheduled_s=timeline.first_scheduled_s,
            first_token_s=timeline.first_token_s,
            ended_s=timeline.ended_s,
            prompt_tokens=timeline.num_prompt_tokens,
            output_tokens=timeline.num_tokens,
            cached_tokens=timeline.cached_tokens,
            max_tokens=request.max_tokens,
            preemptions=len(timeline.preempted_s),
            priority=request.priority,
            tenant=request.tenant,
            outcome=timeline.outcome,
        )


class Records:
    """Lives on the event loop, fed with every step report; a reader takes documents."""

    def __init__(
        self,
        *,
        kept_steps: int = KEPT_STEPS,
        kept_requests: int = KEPT_REQUESTS,
        clock: Callable[[], float] = time.monotonic,
        unix_clock: Callable[[], float] = time.time,
        instance: str | None = None,
    ) -> None:
        self._steps: Ring[StepRecord] = Ring(kept_steps)
        self._requests: Ring[RequestRecord] = Ring(kept_requests)
        self._clock = clock
        self._unix_clock = unix_clock
        self._instance = instance or secrets.token_hex(4)
        """Tells one start of the engine from the next: positions begin anew."""

    def record(self, report: StepReport) -> None:
        """Keeps the step of a turn, if there was one."""
        if report.step is not None:
            snapshot = report.snapshot
            self._steps.append(
                StepRecord(report.now_s, report.step, snapshot.num_running, snapshot.num_waiting)
            )

    def ended(self, timeline: Timeline) -> None:
        """Keeps what became of a request."""
        self._requests.append(RequestRecord.of(timeline))

    def document(self, since: str | None, limit: int) -> dict[str, Any]:
        """At most `limit` records of each kind after the cursor `since`; without one, from the oldest kept.

        Raises:
            CursorError: `since` is no cursor that this or an earlier start of the engine gave.
        """
        positions = self._positions(since)
        steps = self._steps.since(positions[0], limit)
        requests = self._requests.since(positions[1], limit)
        return {
            "cursor": f"{self._instance}.{steps.end}.{requests.end}",
            "more": steps.end < self._steps.end or requests.end < self._requests.end,
            "lost": self._lost(since, steps, requests),
            "now_s": self._clock(),
            "now_unix_s": self._unix_clock(),
            "steps": [record.document() for record in steps.records],
            "requests": [record._asdict() for record in requests.records],
        }

    def _positions(self, since: str | None) -> tuple[int, int]:
        if since is None:
            return 0, 0
        if (found := _CURSOR.fullmatch(since)) is None:
            raise CursorError("since takes the cursor of an earlier answer")
        if not self._is_ours(since):
            return 0, 0
        positions = int(found[2]), int(found[3])
        if positions[0] > self._steps.end or positions[1] > self._requests.end:
            raise CursorError("since is ahead of this engine's records")
        return positions

    def _is_ours(self, since: str) -> bool:
        return since.startswith(f"{self._instance}.")

    def _lost(
        self, since: str | None, steps: Page[StepRecord], requests: Page[RequestRecord]
    ) -> dict[str, int] | None:
        """None: the engine was started again since, and nobody can say how many records went with it."""
        if since is not None and not self._is_ours(since):
            return None
        return {"steps": steps.lost, "requests": requests.lost}
