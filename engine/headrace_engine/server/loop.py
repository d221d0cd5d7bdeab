"""The step loop: one thread that owns the scheduler and the runner.

A turn drains the inbox, expires, schedules, runs, commits, and hands one `StepReport` to `deliver`; nobody
else touches a request. Without work the thread waits on a condition. What reaches the inbox (requests,
aborts, new limits) takes effect between two steps.

A turn that raises ends every request with an error event, tells `on_failure`, and ends the loop: the state
behind the exception is unknown, so the process answers and restarts rather than limps.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from headrace_engine.core.plan import Event, Finished, Outcome, Plan, Rejection
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.server.heartbeat import Heartbeat
from headrace_engine.server.model import Runner
from headrace_engine.telemetry.report import Step, StepReport

log = logging.getLogger(__name__)
T = TypeVar("T")

NOTHING_PLANNED_WAIT_S = 0.05
"""Work exists but none of it fits this turn: look at the deadlines again after this long, or when posted
to.
"""
LAST_STEP_S = 5.0
NOTHING = Outcome({}, 0.0)
FAILED = "The engine failed and is restarting."


class StepLoop:
    """Owns `scheduler` and `runner` from `start` to `stop`; its methods may be called from any thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: Runner,
        *,
        deliver: Callable[[StepReport], None],
        on_failure: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._deliver = deliver
        self._on_failure = on_failure
        self._clock = clock
        self._inbox: deque[Callable[[_Turn], None]] = deque()
        self._posted = threading.Condition()
        self._stopping = False
        self._closed = False
        self._failed = False
        self._plan: Plan | None = None
        self._unfinished: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="step-loop", daemon=True)
        self.heartbeat = Heartbeat(clock)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the turn under way; requests still there are answered with an error event.

        A step that hangs is not waited for: its thread ends with the process.
        """
        with self._posted:
            self._stopping = True
            self._posted.notify()
        self._thread.join(LAST_STEP_S)

    def submit(self, requests: Sequence[Request]) -> None:
        """Offers requests; the acceptance or rejection of each is in the next report."""
        self._post(lambda turn: turn.submit(requests))

    def abort(self, request_ids: Iterable[str], reason: FinishReason = FinishReason.ABORT) -> None:
        """Ends requests before the next step. An id that is unknown or already ended is no error."""
        ids = tuple(request_ids)
        self._post(lambda turn: turn.abort(ids, reason))

    def call(self, change: Callable[[Scheduler], T]) -> "Future[T]":
        """Runs `change` on the scheduler between two steps."""
        future: Future[T] = Future()
        self._post(lambda turn: turn.call(change, future))
        return future

    def turn(self) -> bool:
        """One turn; False when no step was run."""
        turn = _Turn(self._scheduler, self._clock())
        try:
            self._advance(turn)
        except Exception:
            log.exception("step failed; the engine ends its requests and restarts")
            self._fail(turn)
        self._report(turn)
        return turn.step is not None

    def _run(self) -> None:
        try:
            self._turn_until_stopped()
            self._close()
        except Exception:
            log.exception("the step loop itself failed; the engine restarts")
            self._on_failure()

    def _turn_until_stopped(self) -> None:
        while not (self._failed or self._stopping):
            busy = self.turn()
            with self._posted:
                if not (busy or self._inbox or self._stopping or self._failed):
                    self._posted.wait(NOTHING_PLANNED_WAIT_S if self._scheduler.has_work() else None)

    def _post(self, command: Callable[["_Turn"], None]) -> None:
        with self._posted:
            self._inbox.append(command)
            self._posted.notify()
            if self._closed:
                self._close()

    def _advance(self, turn: "_Turn") -> None:
        self._drain_inbox(turn)
        turn.events += self._scheduler.expire(turn.now_s)
        has_work = self._scheduler.has_work()
        self.heartbeat.beat(has_work=has_work)
        if not has_work:
            return
        self._plan = plan = self._scheduler.schedule(turn.now_s)
        self.heartbeat.planned(plan.num_tokens)
        outcome = self._runner.run(plan) if plan.rows else NOTHING
        now_s = self._clock()
        turn.events += self._scheduler.commit(plan, outcome, now_s)
        if plan.rows:
            turn.step = Step.of(plan, now_s - turn.now_s)
            turn.now_s = now_s
            self.heartbeat.stepped(turn.step.duration_s)

    def _fail(self, turn: "_Turn") -> None:
        self._failed = True
        self._unfinished.update(request.request_id for request in turn.accepted)
        try:
            if self._plan is not None:
                turn.events += self._scheduler.fail(self._plan, FAILED)
            turn.abort(sorted(self._unfinished), FinishReason.ERROR)
        except Exception:
            log.exception("the scheduler could not put its requests away")
        ended = {event.request_id for event in turn.events if isinstance(event, Finished)}
        lost = sorted(self._unfinished - ended)
        turn.events += [Finished(name, FinishReason.ERROR, message=FAILED) for name in lost]

    def _drain_inbox(self, turn: "_Turn") -> None:
        while self._inbox:
            self._inbox.popleft()(turn)

    def _report(self, turn: "_Turn") -> None:
        self._unfinished.update(request.request_id for request in turn.accepted)
        self._unfinished -= {event.request_id for event in turn.events if isinstance(event, Finished)}
        if turn.has_news():
            self._deliver(turn.report())
        if self._failed and not self._closed:
            self._on_failure()

    def _close(self) -> None:
        """Answers what is left: nothing that was ever posted goes without its terminal event."""
        with self._posted:
            self._closed = True
            self._scheduler.close()
            turn = _Turn(self._scheduler, self._clock())
            self._drain_inbox(turn)
            turn.abort(sorted(self._unfinished), FinishReason.ERROR)
            self._report(turn)


def _groups(requests: Sequence[Request]) -> list[list[Request]]:
    """Neighbors of the same group together."""
    groups: list[list[Request]] = []
    for request in requests:
        if groups and request.group and request.group == groups[-1][0].group:
            groups[-1].append(request)
        else:
            groups.append([request])
    return groups


class _Turn:
    """What one turn gathers; the commands of the inbox are its methods."""

    def __init__(self, scheduler: Scheduler, now_s: float) -> None:
        self._scheduler = scheduler
        self._limits_changed = False
        self.now_s = now_s
        self.accepted: list[Request] = []
        self.rejected: list[tuple[Request, Rejection]] = []
        self.events: list[Event] = []
        self.step: Step | None = None

    def submit(self, requests: Sequence[Request]) -> None:
        for together in _groups(requests):
            rejection = self._scheduler.submit_together(together, self.now_s)
            if rejection is None:
                self.accepted += together
            else:
                self.rejected += [(request, rejection) for request in together]

    def abort(self, request_ids: Sequence[str], reason: FinishReason) -> None:
        ended = (self._scheduler.abort(request_id, reason) for request_id in request_ids)
        self.events += [event for event in ended if event is not None]

    def call(self, change: Callable[[Scheduler], T], future: "Future[T]") -> None:
        self._limits_changed = True
        try:
            future.set_result(change(self._scheduler))
        except Exception as error:  # noqa: BLE001 - the caller's to handle
            future.set_exception(error)

    def has_news(self) -> bool:
        return bool(self.accepted or self.rejected or self.events or self.step or self._limits_changed)

    def report(self) -> StepReport:
        return StepReport(
            now_s=self.now_s,
            accepted=tuple(self.accepted),
            rejected=tuple(self.rejected),
            events=tuple(self.events),
            step=self.step,
            limits=self._scheduler.limits,
            snapshot=self._scheduler.snapshot(self.now_s),
        )
