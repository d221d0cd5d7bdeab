"""The server's side of the step loop: requests in, each one's events out.

Lives on the event loop; the engine core is behind the link, in another process, and hands over one report a
turn. Recording a report and waking its streams happen together, so metrics and answers never disagree.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from headrace_engine.core.plan import Finished, Rejection
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.link import reports
from headrace_engine.link.client import CoreLink
from headrace_engine.server.mailbox import Mailbox, Refused
from headrace_engine.server.metering import Metering
from headrace_engine.server.model import ServedModel
from headrace_engine.server.rules import Rules
from headrace_engine.telemetry.report import StepReport

log = logging.getLogger(__name__)

Observer = Callable[[StepReport], None]
"""Told of every report, on the event loop, before any stream is."""
Refusal = Callable[[Request, Rejection], None]
"""Told of a request that the core was not even asked to take."""

UNANSWERED_BESIDE = 64
"""On the way to the core, beside twice what it can hold."""


class Engine:
    """Made and used on one event loop. Whoever made the link ends it."""

    def __init__(
        self,
        model: ServedModel,
        link: CoreLink,
        rules: Rules,
        observers: Sequence[Observer],
        *,
        enable_prefix_caching: bool,
        on_failure: Callable[[], None],
        on_submit: Sequence[Callable[[Sequence[Request]], None]] = (),
        on_refusal: Refusal = lambda _request, _rejection: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model = model
        self.clock = clock
        self.num_running = 0
        self._link = link
        self._observers = tuple(observers)
        self._on_submit = tuple(on_submit)
        self._on_refusal = on_refusal
        self._on_failure = on_failure
        self._failed = False
        self._requests: dict[str, Request] = {}
        """Those that have not ended, and below where their events go."""
        self._mailboxes: dict[str, Mailbox] = {}
        self._tokens_on_the_way = 0
        """Of the prompts that the core has not answered for yet."""
        self._unread: set[Mailbox] = set()
        """Of the answers that are not given to the end."""
        self._ended, self._read = asyncio.Event(), asyncio.Event()
        self._ended.set()
        self._read.set()
        self._rules = rules
        self._metering = Metering(clock, rules.contract.replicas)
        link.listen(self._receive, self._fail)
        link.open(rules, enable_prefix_caching=enable_prefix_caching)

    def submit(self, requests: Sequence[Request]) -> Mailbox:
        """Offers requests together; their events come into one mailbox, until `leave`."""
        mailbox = Mailbox()
        for told in self._on_submit:
            told(requests)
        refused = self._full(requests) or self._metering.take(self._rules.contract, requests)
        if refused is None and not self._failed:
            self._link.submit(requests)
        self._unread.add(mailbox)
        self._read.clear()
        if refused is not None:
            self._refuse(requests, refused, mailbox)
            return mailbox
        self._ended.clear()
        self._tokens_on_the_way += _num_tokens(requests)
        self._requests |= {request.request_id: request for request in requests}
        self._mailboxes |= {request.request_id: mailbox for request in requests}
        if self._failed:
            self._end_all()
        return mailbox

    def leave(self, mailbox: Mailbox) -> None:
        """Nobody reads this mailbox any more."""
        self._unread.discard(mailbox)
        self._settle()

    def abort(self, request_ids: Iterable[str], reason: FinishReason = FinishReason.ABORT) -> None:
        """Before the next step these requests are gone and their blocks are free."""
        self._link.abort(request_ids, reason)

    def abort_all(self) -> None:
        self.abort(list(self._mailboxes))

    @property
    def num_unanswered(self) -> int:
        """Requests that were offered and have not ended: those on their way too."""
        return len(self._mailboxes)

    @property
    def all_read(self) -> bool:
        """No request is left, and every answer was given to its client, or nobody is there to take it."""
        return self._read.is_set()

    async def wait_ended(self) -> None:
        """Until no request is left."""
        await self._ended.wait()

    async def wait_read(self) -> None:
        """Until `all_read`."""
        await self._read.wait()

    @property
    def stalled(self) -> bool:
        return self._link.pulses.stalled()

    async def set_rules(self, rules: Rules, *, new_policy: bool) -> None:
        """Active from the step after this returns, all of them or none."""
        await self._link.set_rules(rules, new_policy=new_policy)
        self._metering.agree(self._rules.contract, rules.contract)
        self._rules = rules

    def allowances(self, tenant: str) -> dict[str, str]:
        """The headers that tell a tenant what is left of its rates; none where it has none."""
        return self._metering.headers(self._rules.contract, tenant)

    def close_admission(self) -> None:
        """From here on every new request is refused as `draining`."""
        self._link.close_admission()

    def _full_of(self, requests: Sequence[Request]) -> Literal["requests", "tokens"] | None:
        """The core answers between two steps: what comes and goes during a long one piles up on the way, and
        must end somewhere. A prompt that is alone on it is always let through.
        """
        limits, capacity, on_the_way = self._rules.limits, self.model.capacity, self._tokens_on_the_way
        most_requests = 2 * (limits.max_num_seqs + limits.max_num_queued_reqs) + UNANSWERED_BESIDE
        if self.num_unanswered and self.num_unanswered + len(requests) > most_requests:
            return "requests"
        most_tokens = 2 * (capacity.num_blocks * capacity.block_size + limits.max_num_queued_tokens)
        is_full = on_the_way > 0 and on_the_way + _num_tokens(requests) > most_tokens
        return "tokens" if is_full else None

    def _full(self, requests: Sequence[Request]) -> Rejection | None:
        full_of = self._full_of(requests)
        message = f"The engine has not answered for more {full_of} than its queue holds."
        return None if full_of is None else Rejection(f"queue_full_{full_of}", message)

    def _refuse(self, requests: Sequence[Request], rejection: Rejection, mailbox: Mailbox) -> None:
        for request in requests:
            self._on_refusal(request, rejection)
            mailbox.put(Refused(request.request_id, rejection))

    def _receive(self, report: bytes) -> None:
        if self._failed:
            return
        try:
            self._take(reports.decode(report, self._requests))
        except Exception:
            log.exception("what a step did could not be told; the engine ends its requests and restarts")
            self._fail()

    def _fail(self) -> None:
        """Nobody waits for an engine that will tell nothing more."""
        if not self._failed:
            self._failed = True
            self._end_all()
            self._on_failure()

    def _end_all(self) -> None:
        for request_id, mailbox in self._mailboxes.items():
            mailbox.put(Finished(request_id, FinishReason.ERROR))
        self._mailboxes.clear()
        self._requests.clear()
        self._tokens_on_the_way = 0
        self._settle()

    def _take(self, report: StepReport) -> None:
        for observe in self._observers:
            observe(report)
        self._metering.observe(report)
        self.num_running = report.snapshot.num_running
        answered = (*report.accepted, *(request for request, _ in report.rejected))
        self._tokens_on_the_way -= _num_tokens(answered)
        for request, rejection in report.rejected:
            self._forget(request.request_id).put(Refused(request.request_id, rejection))
        for event in report.events:
            if isinstance(event, Finished):
                self._forget(event.request_id).put(event)
            else:
                self._mailboxes[event.request_id].put(event)
        self._settle()

    def _forget(self, request_id: str) -> Mailbox:
        del self._requests[request_id]
        return self._mailboxes.pop(request_id)

    def _settle(self) -> None:
        if not self._mailboxes:
            self._ended.set()
            if not self._unread:
                self._read.set()


def _num_tokens(requests: Iterable[Request]) -> int:
    return sum(len(request.prompt_token_ids) for request in requests)
