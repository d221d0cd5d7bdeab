"""The server's side of the step loop: requests in, each one's events out.

Lives on the event loop; the step loop hands over one report a turn, in one hop. Recording a report and
waking its streams happen together, so metrics and answers never disagree.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headrace_engine.core.limits import Capacity
from headrace_engine.core.plan import Finished
from headrace_engine.core.policies import policy_of
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.server.loop import Runner, StepLoop
from headrace_engine.server.mailbox import Mailbox, Refused
from headrace_engine.server.prompts import Tokenizer
from headrace_engine.server.rules import Rules
from headrace_engine.telemetry.report import StepReport

log = logging.getLogger(__name__)

Observer = Callable[[StepReport], None]
"""Told of every report, on the event loop, before any stream is."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to serve, and what it can hold."""

    runner: Runner
    tokenizer: Tokenizer
    capacity: Capacity
    vocab_size: int
    eos_token_ids: frozenset[int]
    dtype: str


class Engine:
    """Made, used and stopped on one event loop."""

    def __init__(
        self,
        model: LoadedModel,
        scheduler: Scheduler,
        observers: Sequence[Observer],
        *,
        on_failure: Callable[[], None],
        on_submit: Sequence[Callable[[Sequence[Request]], None]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model = model
        self.clock = clock
        self.num_running = 0
        self._observers = tuple(observers)
        self._on_submit = tuple(on_submit)
        self._on_failure = on_failure
        self._failed = False
        self._mailboxes: dict[str, Mailbox] = {}
        """Of the requests that have not ended."""
        self._unread: set[Mailbox] = set()
        """Of the answers that are not given to the end."""
        self._ended, self._read = asyncio.Event(), asyncio.Event()
        self._ended.set()
        self._read.set()
        event_loop = asyncio.get_running_loop()
        self._loop = StepLoop(
            scheduler,
            model.runner,
            deliver=lambda report: _hop(event_loop, self._receive, report),
            on_failure=lambda: _hop(event_loop, self._fail),
            clock=clock,
        )

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """Ends the step loop. Call it off the event loop: it waits for the step under way."""
        self._loop.stop()

    def submit(self, requests: Sequence[Request]) -> Mailbox:
        """Offers requests together; their events come into one mailbox, until `leave`."""
        for told in self._on_submit:
            told(requests)
        mailbox = Mailbox()
        self._mailboxes |= {request.request_id: mailbox for request in requests}
        self._unread.add(mailbox)
        self._ended.clear()
        self._read.clear()
        self._loop.submit(requests)
        return mailbox

    def leave(self, mailbox: Mailbox) -> None:
        """Nobody reads this mailbox any more."""
        self._unread.discard(mailbox)
        self._settle()

    def abort(self, request_ids: Iterable[str], reason: FinishReason = FinishReason.ABORT) -> None:
        """Before the next step these requests are gone and their blocks are free."""
        self._loop.abort(request_ids, reason)

    def abort_all(self) -> None:
        self.abort(list(self._mailboxes))

    @property
    def num_unanswered(self) -> int:
        """Requests that were offered and have not ended: those in the inbox too."""
        return len(self._mailboxes)

    async def wait_ended(self) -> None:
        """Until no request is left."""
        await self._ended.wait()

    async def wait_read(self) -> None:
        """Until no request is left, and every answer was given to its client."""
        await self._read.wait()

    @property
    def stalled(self) -> bool:
        return self._loop.heartbeat.stalled()

    async def set_rules(self, rules: Rules, *, new_policy: bool) -> None:
        """Active from the step after this returns, all of them or none."""

        def apply(scheduler: Scheduler) -> None:
            scheduler.set_limits(rules.limits)
            scheduler.set_contract(rules.contract)
            if new_policy:
                policy = policy_of(rules.policy, scheduler.tenants, scheduler.prefill_rate)
                scheduler.set_policy(policy, self.clock())

        await asyncio.wrap_future(self._loop.call(apply))

    def close_admission(self) -> None:
        """From here on every new request is refused as `draining`."""
        self._loop.call(lambda scheduler: scheduler.close())

    def _receive(self, report: StepReport) -> None:
        if self._failed:
            return
        try:
            self._take(report)
        except Exception:
            log.exception("what a step did could not be told; the engine ends its requests and restarts")
            self._fail()

    def _fail(self) -> None:
        """Nobody waits for an engine that will tell nothing more."""
        self._failed = True
        for request_id, mailbox in self._mailboxes.items():
            mailbox.put(Finished(request_id, FinishReason.ERROR))
        self._mailboxes.clear()
        self._settle()
        self._on_failure()

    def _take(self, report: StepReport) -> None:
        for observe in self._observers:
            observe(report)
        self.num_running = report.snapshot.num_running
        for request, rejection in report.rejected:
            self._mailboxes.pop(request.request_id).put(Refused(request.request_id, rejection))
        for event in report.events:
            mailbox = self._mailboxes[event.request_id]
            if isinstance(event, Finished):
                del self._mailboxes[event.request_id]
            mailbox.put(event)
        self._settle()

    def _settle(self) -> None:
        if not self._mailboxes:
            self._ended.set()
            if not self._unread:
                self._read.set()


def _hop(event_loop: asyncio.AbstractEventLoop, *call: object) -> None:
    """Runs a call on the event loop. A loop that has closed has nobody left to tell."""
    if not event_loop.is_closed():
        event_loop.call_soon_threadsafe(*call)  # type: ignore[arg-type]
