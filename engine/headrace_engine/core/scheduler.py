"""The scheduler: who computes which tokens in the next step.

    expire(now)             requests that missed their queue deadline end
    schedule(now) -> Plan   decodes: every running request with one pending token computes it
                            prefills: running requests with more compute a chunk each, in order of admission
                            admissions: the policy's order, while budget, slots and blocks last
    commit(plan, ...)       computed counts advance, full blocks are published, tokens are told

Invariants: a plan keeps within the limits read at its start; blocks named in a plan are not given away before
it is committed or failed; nothing is admitted in a step that preempted; a step with work computes at least
one token; every accepted request ends with exactly one `Finished`. Single-threaded: the step loop's thread
owns it.
"""

from collections.abc import Sequence

from headrace_engine.core.admission import Admission, misfit
from headrace_engine.core.completion import accept
from headrace_engine.core.expiry import QueueDeadlines
from headrace_engine.core.kv_cache import KVCache
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import (
    Event,
    Finished,
    Hold,
    Outcome,
    Plan,
    Preempted,
    Rejection,
    Scheduled,
    Tokens,
)
from headrace_engine.core.policy import FirstComeFirstServed, Policy
from headrace_engine.core.preemption import is_pinned, victim
from headrace_engine.core.request import FinishReason, Request, Status
from headrace_engine.core.running import Running
from headrace_engine.core.snapshot import Snapshot
from headrace_engine.core.step import Step


class Scheduler:
    """One engine's requests, blocks and queue."""

    def __init__(
        self,
        *,
        capacity: Capacity,
        limits: Limits | None = None,
        policy: Policy | None = None,
        enable_prefix_caching: bool = True,
    ) -> None:
        self._capacity = capacity
        self._limits = limits or Limits.of(capacity)
        self._limits.validate(capacity)
        self._kv = KVCache(
            capacity.num_blocks, capacity.block_size, enable_prefix_caching=enable_prefix_caching
        )
        self._waiting = policy or FirstComeFirstServed()
        self._running = Running()
        self._requests: dict[str, Request] = {}
        """Every request that was accepted and has not ended."""
        self._admission = Admission()
        self._deadlines = QueueDeadlines()
        self._closed = False
        self._step_id = 0
        self._under_way: Plan | None = None
        self._ended_in_plan: dict[str, Request] = {}
        """Ended while a plan was under way: their blocks are released when it is done."""
        self._notices: list[Scheduled | Preempted] = []
        """What planning did to requests; told with the plan's outcome."""
        self._preemptions = 0
        self._prefix_query_tokens = 0
        self._prefix_hit_tokens = 0

    @property
    def capacity(self) -> Capacity:
        return self._capacity

    @property
    def limits(self) -> Limits:
        return self._limits

    def set_limits(self, limits: Limits) -> None:
        """Let `limits` hold from the next step. Lowering one ends nothing that runs.

        Raises:
            LimitsError: one is outside the capacity; nothing is changed.
        """
        limits.validate(self._capacity)
        self._limits = limits

    def close(self) -> None:
        """Refuse requests from now on; those accepted are served to their end."""
        self._closed = True

    def has_work(self) -> bool:
        """Whether any accepted request has not ended, or a plan is under way."""
        return bool(self._requests) or self._under_way is not None

    def submit(self, request: Request, now_s: float) -> Rejection | None:
        """Take a request into the queue, or say why not. An accepted one ends in exactly one `Finished`."""
        rejection = self._refuse(request)
        if rejection is not None:
            return rejection
        longest = len(request.prompt_token_ids) + request.max_tokens
        request.token_limit = min(longest, self._most_total_tokens)
        self._requests[request.request_id] = request
        self._waiting.push(request, now_s)
        self._admission.enter(request)
        self._deadlines.push(request)
        return None

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> Finished | None:
        """End a request wherever it stands; None if it is unknown or has ended.

        Its blocks are free at once, or when the plan under way is committed or failed.
        """
        request = self._requests.get(request_id)
        return None if request is None else self._finish(request, reason)

    def expire(self, now_s: float) -> list[Finished]:
        """End the requests that were not scheduled by their queue deadline. Called before `schedule`."""
        return [
            self._finish(request, FinishReason.EXPIRED, "not scheduled by its queue deadline")
            for request in self._deadlines.expired(now_s)
        ]

    def schedule(self, now_s: float) -> Plan:
        """Plan the next step. Every plan, an empty one too, is committed or failed before the next."""
        assert self._under_way is None, "commit or fail the plan under way before making the next"
        limits = self._limits
        self._step_id += 1
        step = Step(self._step_id, limits.max_num_batched_tokens, limits.long_prefill_token_threshold)
        decodes = step.share_of(list(self._running.decodes.values()))
        preempted = self._make_room(decodes, now_s)
        if preempted:
            decodes = [request for request in decodes if request.status is Status.RUNNING]
        step.decode(decodes)
        for request in self._running.prefills.values():
            step.prefill(request)
        hold = Hold.PREEMPTION if preempted else self._admit(step, now_s)
        self._admission.step(now_s)
        plan = step.plan(preempted, hold)
        self._under_way = plan
        return plan

    def commit(self, plan: Plan, outcome: Outcome, now_s: float) -> list[Event]:
        """Apply what the runner computed.

        Events come in this order: preemptions and first schedulings as planned, then row by row the tokens of
        a request and, if it ended, its `Finished`. Nothing is told of a request after its `Finished`.
        """
        events = self._close_plan(plan)
        sampled = outcome.sampled
        for row in plan.rows:
            request = self._requests.get(row.request_id)
            if request is None:
                continue
            self._kv.advance(request, len(row.token_ids))
            if row.sampled_rows:
                self._accept(request, sampled.get(row.request_id, ()), now_s, events)
        return events

    def fail(self, plan: Plan, message: str) -> list[Event]:
        """The step could not be computed: its requests end with `ERROR`; others are untouched.

        Nothing of the step was published, so no half-written block can be found later.
        """
        events = self._close_plan(plan)
        for row in plan.rows:
            request = self._requests.get(row.request_id)
            if request is not None:
                events.append(self._finish(request, FinishReason.ERROR, message))
        return events

    def snapshot(self, now_s: float) -> Snapshot:
        """What is held at this moment."""
        pool = self._kv.pool
        return Snapshot(
            num_running=len(self._running),
            num_waiting=len(self._waiting),
            num_newcomers=self._admission.num_newcomers,
            waiting_tokens=self._admission.waiting_tokens,
            oldest_waiting_age_s=self._admission.oldest_age_s(now_s),
            num_blocks=pool.num_blocks,
            free_blocks=pool.num_free,
            cached_blocks=pool.num_cached,
            referenced_blocks=pool.num_referenced,
            preemptions_total=self._preemptions,
            prefix_query_tokens_total=self._prefix_query_tokens,
            prefix_hit_tokens_total=self._prefix_hit_tokens,
        )

    @property
    def _most_total_tokens(self) -> int:
        """The longest sequence: the model's, or what the whole pool holds and one sampled token more."""
        capacity = self._capacity
        return min(capacity.max_model_len, capacity.num_blocks * capacity.block_size + 1)

    def _refuse(self, request: Request) -> Rejection | None:
        if self._closed:
            return Rejection("draining", "This engine is shutting down. Send the request to another.")
        if request.request_id in self._requests or request.request_id in self._ended_in_plan:
            return Rejection("duplicate_id", f"A request with the id {request.request_id} is being served.")
        free_slots = self._limits.max_num_seqs - len(self._running)
        return misfit(request, self._most_total_tokens) or self._admission.refuse(
            request, self._limits, free_slots
        )

    def _make_room(self, decodes: Sequence[Request], now_s: float) -> list[str]:
        """Give every decode a slot for its pending token, preempting where no block is left. Returns whom."""
        block_size = self._capacity.block_size
        preempted: list[str] = []
        for request in decodes:
            if request.computed_tokens < len(request.block_table) * block_size:
                continue
            while request.status is Status.RUNNING and not self._kv.grow(request):
                loser = victim(self._running)
                self._preempt(loser, now_s)
                preempted.append(loser.request_id)
        return preempted

    def _preempt(self, request: Request, now_s: float) -> None:
        self._notices.append(Preempted(request.request_id, request.computed_tokens))
        self._running.remove(request)
        self._kv.release(request)
        request.status = Status.PREEMPTED
        request.preemptions += 1
        self._preemptions += 1
        self._waiting.push(request, now_s)

    def _admit(self, step: Step, now_s: float) -> Hold | None:
        """Admit from the head of the queue while it fits; returns what held it back, if anything did."""
        while (request := self._waiting.peek(now_s)) is not None:
            if not step.left_tokens:
                return Hold.BUDGET
            if len(self._running) >= self._limits.max_num_seqs:
                return Hold.SLOTS
            if not self._kv.admit(request, whole_length=is_pinned(request)):
                return Hold.BLOCKS
            self._waiting.remove(request)
            self._running.admit(request)
            if request.first_scheduled_s is None:
                self._first_scheduled(request, now_s)
            request.status = Status.RUNNING
            step.prefill(request)
        return None

    def _first_scheduled(self, request: Request, now_s: float) -> None:
        request.first_scheduled_s = now_s
        request.cached_tokens = request.computed_tokens
        self._prefix_query_tokens += len(request.prompt_token_ids)
        self._prefix_hit_tokens += request.cached_tokens
        self._admission.leave(request, scheduled=True)
        self._notices.append(Scheduled(request.request_id, now_s - request.arrival_s, request.cached_tokens))

    def _close_plan(self, plan: Plan) -> list[Event]:
        """No plan is under way any more: let go of what waited for it, and tell what planning did."""
        assert plan is self._under_way, "this plan is not the one under way"
        self._under_way = None
        for request in self._ended_in_plan.values():
            self._kv.release(request)
        self._ended_in_plan.clear()
        notices, self._notices = self._notices, []
        return [notice for notice in notices if notice.request_id in self._requests]

    def _accept(self, request: Request, token_ids: Sequence[int], now_s: float, events: list[Event]) -> None:
        if not token_ids:
            events.append(self._finish(request, FinishReason.ERROR, "the runner sampled no token"))
            return
        if request.first_token_s is None:
            request.first_token_s = now_s
        kept, reason = accept(request, token_ids)
        request.output_token_ids += kept
        stop_token_id = kept[-1] if reason is FinishReason.STOP else None
        told = kept if stop_token_id is None else kept[:-1]
        if told:
            events.append(Tokens(request.request_id, told))
        if reason is not None:
            events.append(self._finish(request, reason, stop_token_id=stop_token_id))
        elif request.request_id in self._running.prefills:
            self._running.prefilled(request)

    def _finish(
        self,
        request: Request,
        reason: FinishReason,
        message: str | None = None,
        *,
        stop_token_id: int | None = None,
    ) -> Finished:
        """The one way out, whatever the reason and wherever the request stands."""
        del self._requests[request.request_id]
        if request.status is Status.RUNNING:
            self._running.remove(request)
        else:
            self._waiting.remove(request)
            self._admission.leave(request, scheduled=False)
        request.status = Status.FINISHED
        request.finish_reason = reason
        if self._under_way is None:
            self._kv.release(request)
        else:
            self._ended_in_plan[request.request_id] = request
        return Finished(
            request.request_id,
            reason,
            stop_token_id,
            message,
            prompt_tokens=len(request.prompt_token_ids),
            output_tokens=len(request.output_token_ids),
            cached_tokens=request.cached_tokens,
        )
