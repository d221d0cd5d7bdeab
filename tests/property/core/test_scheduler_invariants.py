"""Random arrivals, aborts, failures and limit changes on small pools, against a runner that keeps KV slot by
slot.

The runner has no model: a slot holds a digest of the whole context that was computed into it. So it proves
from the rows alone that every position is computed exactly once before it is attended to, that no row writes
where another reads, and that no request is given blocks with another context, whatever is shared, preempted
or used again.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Outcome, Plan, Preempted, Rejection, Row, Scheduled, Tokens
from headrace_engine.core.preemption import MAX_PREEMPTIONS
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.scheduler import Scheduler

VOCABULARY = 5
STOP_ID = 0


def kv_value(before: int, token_id: int) -> int:
    """What a slot holds after computing `token_id` in the context that `before` stands for."""
    return int.from_bytes(blake2b(f"{before},{token_id}".encode(), digest_size=8).digest())


def next_token(context: int) -> int:
    return context % VOCABULARY


def alone(request: Request) -> list[int]:
    """What a request generates when nothing else is in the world and it is not cut short."""
    context = kv_value(0, int.from_bytes(request.block_salt))
    for token_id in request.prompt_token_ids:
        context = kv_value(context, token_id)
    output: list[int] = []
    while len(output) < request.token_limit - len(request.prompt_token_ids):
        output.append(next_token(context))
        context = kv_value(context, output[-1])
        if output[-1] in request.stop_token_ids and len(output) >= request.min_tokens:
            break
    return output


class SlotRunner:
    """Computes plans on simulated KV memory, and fails where a row attends to what is not its own context."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._block_size = block_size
        self._slots: list[list[int | None]] = [[None] * block_size for _ in range(num_blocks)]

    def run(self, plan: Plan, requests: dict[str, Request]) -> Outcome:
        sampled: dict[str, list[int]] = {}
        for row in plan.rows:
            context = self._compute(row, requests[row.request_id])
            if row.sampled_rows:
                sampled[row.request_id] = [next_token(context)]
        return Outcome(sampled, 0.001)

    def poison(self, plan: Plan) -> None:
        """A step that broke half-way left garbage where it was to write."""
        for row in plan.rows:
            for position in range(row.start, row.start + len(row.token_ids)):
                self._write(row, position, -1)

    def _compute(self, row: Row, request: Request) -> int:
        tokens = [*request.prompt_token_ids, *request.output_token_ids]
        end = row.start + len(row.token_ids)
        assert row.token_ids, "no row is empty"
        assert list(row.token_ids) == tokens[row.start : end], "a row's tokens are its request's"
        assert row.sampled_rows == (end == len(tokens)), "a row samples where it reaches the last known token"
        context = kv_value(0, int.from_bytes(request.block_salt))
        for position in range(row.start):
            context = kv_value(context, tokens[position])
            assert self._read(row, position) == context, "attention reads what this very context computed"
        for position in range(row.start, end):
            context = kv_value(context, tokens[position])
            self._write(row, position, context)
        return context

    def _read(self, row: Row, position: int) -> int | None:
        return self._slots[row.block_table[position // self._block_size]][position % self._block_size]

    def _write(self, row: Row, position: int, value: int) -> None:
        self._slots[row.block_table[position // self._block_size]][position % self._block_size] = value


REQUESTS = st.fixed_dictionaries(
    {
        "stem": st.integers(0, 1),
        "stem_length": st.integers(0, 20) | st.just(12),
        "tail": st.lists(st.integers(1, VOCABULARY - 1), max_size=6),
        "max_tokens": st.integers(0, 40) | st.just(30),
        "stops": st.sampled_from([False, False, True]),
        "min_tokens": st.sampled_from([0, 0, 7]),
        "salt": st.sampled_from([b"", b"", b"\x01"]),
        "deadline_s": st.none() | st.floats(0, 5),
    }
)


class SchedulerMachine(RuleBasedStateMachine):
    """One scheduler, and a plain account of what it was given and what it said."""

    @initialize(
        num_blocks=st.integers(2, 64) | st.integers(2, 16),
        block_size=st.sampled_from([1, 2, 2, 4, 8]),
        max_num_seqs=st.integers(1, 8),
        max_num_batched_tokens=st.integers(1, 48),
        max_model_len=st.integers(2, 96) | st.just(64),
        caching=st.booleans(),
    )
    def start(
        self,
        num_blocks: int,
        block_size: int,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        caching: bool,
    ) -> None:
        self.capacity = Capacity(max_num_seqs, max_num_batched_tokens, max_model_len, num_blocks, block_size)
        self.scheduler = Scheduler(capacity=self.capacity, enable_prefix_caching=caching)
        self.runner = SlotRunner(num_blocks, block_size)
        self.now_s = 0.0
        self.accepted: dict[str, Request] = {}
        self.finished: dict[str, Finished] = {}
        self.told: dict[str, list[int]] = {}
        self.computed_until: dict[str, int] = {}
        """Next position to compute of each request that holds blocks, by the rows alone."""

    # --- what the world does ---

    @rule(data=st.data(), count=st.integers(1, 8))
    def submit(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            self._submit(data.draw(REQUESTS))

    @rule(data=st.data(), reason=st.sampled_from([FinishReason.ABORT, FinishReason.STOP]))
    def abort(self, data: st.DataObject, reason: FinishReason) -> None:
        if self.accepted:
            self._abort(data.draw(st.sampled_from(sorted(self.accepted))), reason)

    @rule(elapsed_s=st.floats(0, 2))
    def wait(self, elapsed_s: float) -> None:
        self.now_s += elapsed_s

    @rule(data=st.data())
    def change_limits(self, data: st.DataObject) -> None:
        capacity = self.capacity
        self.scheduler.set_limits(
            Limits(
                data.draw(st.integers(1, capacity.max_num_seqs)),
                data.draw(st.integers(1, capacity.max_num_batched_tokens)),
                data.draw(st.sampled_from([0, 1, 3, 16])),
                data.draw(st.integers(0, 12)),
                data.draw(st.integers(0, 200)),
            )
        )

    @rule(steps=st.integers(1, 20))
    def run_steps(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    @rule(data=st.data())
    def abort_while_computing(self, data: st.DataObject) -> None:
        plan = self._plan()
        outcome = self.runner.run(plan, self.accepted)
        if plan.rows:
            rows = data.draw(st.lists(st.sampled_from(plan.rows), max_size=3))
            for row in rows:
                self._abort(row.request_id, FinishReason.ABORT)
        self._told(self.scheduler.commit(plan, outcome, self.now_s), plan)

    @rule()
    def break_a_step(self) -> None:
        plan = self._plan()
        self.runner.poison(plan)
        events = self.scheduler.fail(plan, "the device fell over")
        self._told(events, plan)
        ended = {event.request_id for event in events if isinstance(event, Finished)}
        assert ended == {row.request_id for row in plan.rows}

    # --- what must hold ---

    @invariant()
    def blocks_are_conserved(self) -> None:
        snapshot = self.scheduler.snapshot(self.now_s)
        held = [request for request in self.accepted.values() if request.block_table]
        references: dict[int, int] = {}
        for request in held:
            for block in request.block_table:
                references[block] = references.get(block, 0) + 1
        pool = self.scheduler._kv.pool
        assert all(pool.references(block) == references.get(block, 0) for block in range(pool.num_blocks))
        assert snapshot.free_blocks + snapshot.cached_blocks + snapshot.referenced_blocks == pool.num_blocks
        assert snapshot.referenced_blocks == len(references)
        assert min(snapshot.free_blocks, snapshot.cached_blocks) >= 0

    @invariant()
    def counts_are_exact(self) -> None:
        snapshot = self.scheduler.snapshot(self.now_s)
        live = [request for key, request in self.accepted.items() if key not in self.finished]
        newcomers = [request for request in live if request.first_scheduled_s is None]
        assert snapshot.in_flight == len(live)
        assert snapshot.num_newcomers == len(newcomers)
        assert snapshot.waiting_tokens == sum(len(request.prompt_token_ids) for request in newcomers)
        oldest_s = max((self.now_s - request.arrival_s for request in newcomers), default=None)
        assert snapshot.oldest_waiting_age_s == oldest_s
        assert snapshot.preemptions_total == sum(request.preemptions for request in self.accepted.values())
        assert all(request.preemptions <= MAX_PREEMPTIONS for request in self.accepted.values())
        assert self.scheduler.has_work() == bool(live)

    def teardown(self) -> None:
        """Every request ends, each once, and nothing is held after that."""
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.close()
        late = self.scheduler.submit(Request("late", (1,), 1, self.now_s), self.now_s)
        assert isinstance(late, Rejection)
        assert late.reason == "draining"
        work = sum(request.token_limit for request in self.accepted.values())
        for _ in range(2 + work * (1 + MAX_PREEMPTIONS)):
            if not self.scheduler.has_work():
                break
            self._step()
        assert self.finished.keys() == self.accepted.keys()
        assert self.scheduler.snapshot(self.now_s).referenced_blocks == 0
        self.blocks_are_conserved()

    def _submit(self, draw: dict[str, Any]) -> None:
        prompt = (*[1 + (draw["stem"] + i) % 4 for i in range(draw["stem_length"])], *draw["tail"])
        request = Request(
            f"r{len(self.accepted)}",
            prompt,
            draw["max_tokens"],
            self.now_s,
            stop_token_ids=frozenset([STOP_ID] if draw["stops"] else []),
            min_tokens=draw["min_tokens"],
            block_salt=draw["salt"],
            queue_deadline_s=None if draw["deadline_s"] is None else self.now_s + draw["deadline_s"],
        )
        rejection = self.scheduler.submit(request, self.now_s)
        longest = min(self.capacity.max_model_len, self.capacity.num_blocks * self.capacity.block_size + 1)
        fits = 0 < len(prompt) < longest and request.max_tokens > 0
        if rejection is None:
            assert fits
            self.accepted[request.request_id] = request
            self.told[request.request_id] = []
        else:
            assert fits == (rejection.reason in {"queue_full_requests", "queue_full_tokens"}), rejection

    # --- the engine's loop ---

    def _step(self) -> None:
        plan = self._plan()
        outcome = self.runner.run(plan, self.accepted)
        self._told(self.scheduler.commit(plan, outcome, self.now_s), plan)

    def _plan(self) -> Plan:
        for event in self.scheduler.expire(self.now_s):
            assert event.reason is FinishReason.EXPIRED
            assert self.accepted[event.request_id].first_scheduled_s is None
            self._finish(event)
        running = self.scheduler.snapshot(self.now_s).num_running
        before = {key: request.computed_tokens for key, request in self.accepted.items()}
        plan = self.scheduler.schedule(self.now_s)
        self._check_limits(plan, running)
        for request_id in plan.preempted:
            self.computed_until.pop(request_id, None)
        for row in plan.rows:
            start = self.computed_until.get(row.request_id)
            if start is None:
                assert row.start % self.capacity.block_size == 0, "only whole blocks are found in the cache"
                assert before[row.request_id] == 0
            else:
                assert row.start == start, "no position is skipped or computed twice"
            self._check_writes(row)
        return plan

    def _check_limits(self, plan: Plan, running: int) -> None:
        limits, snapshot = self.scheduler.limits, self.scheduler.snapshot(self.now_s)
        assert (
            plan.num_tokens == sum(len(row.token_ids) for row in plan.rows) <= limits.max_num_batched_tokens
        )
        assert plan.context_tokens == sum(row.start + len(row.token_ids) for row in plan.rows)
        assert snapshot.num_running <= max(limits.max_num_seqs, running)
        assert len({row.request_id for row in plan.rows}) == len(plan.rows) <= self.capacity.max_num_seqs
        cap = limits.long_prefill_token_threshold or limits.max_num_batched_tokens
        assert all(len(row.token_ids) <= cap for row in plan.rows)
        if snapshot.in_flight:
            assert plan.rows, "a step with work computes at least one token"
        if plan.preempted:
            assert snapshot.num_running < running, "nothing is admitted in a step that preempted"

    def _check_writes(self, row: Row) -> None:
        block_size = self.capacity.block_size
        last = (row.start + len(row.token_ids) - 1) // block_size
        for block in row.block_table[row.start // block_size : last + 1]:
            assert self.scheduler._kv.pool.references(block) == 1, "nobody writes into a shared block"

    def _told(self, events: Sequence[object], plan: Plan) -> None:
        for row in plan.rows:
            self.computed_until[row.request_id] = row.start + len(row.token_ids)
        for event in events:
            match event:
                case Finished():
                    self._finish(event)
                case Tokens(request_id, token_ids):
                    assert request_id not in self.finished, "nothing is told after the end"
                    self.told[request_id].extend(token_ids)
                case Scheduled(request_id, queue_time_s) | Preempted(request_id, queue_time_s):
                    assert request_id not in self.finished
                    assert queue_time_s >= 0

    def _abort(self, request_id: str, reason: FinishReason) -> None:
        event = self.scheduler.abort(request_id, reason)
        assert (event is None) == (request_id in self.finished)
        if event is not None:
            assert event.reason is reason
            self._finish(event)

    def _finish(self, event: Finished) -> None:
        request = self.accepted[event.request_id]
        assert event.request_id not in self.finished, "a request ends once"
        self.finished[event.request_id] = event
        self.computed_until.pop(event.request_id, None)
        told = self.told[event.request_id] + (
            [event.stop_token_id] if event.stop_token_id is not None else []
        )
        expected = alone(request)
        assert told == request.output_token_ids == expected[: len(told)]
        assert event.output_tokens == len(told)
        if event.reason is FinishReason.LENGTH or event.stop_token_id is not None:
            assert told == expected, "what else is in the batch changes nothing"


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=150, stateful_step_count=40)
