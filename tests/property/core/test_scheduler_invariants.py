"""Random arrivals, aborts, failures, loads, drafts and limit changes on small pools.

The runner keeps KV slot by slot (`slot_runner`), so that every plan is proved right by what it reads and
writes; this machine keeps a plain account of what the scheduler was given and what it said, and compares.
"""

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scheduler_strategies import LIMITS, REQUESTS, one_of_each
from slot_runner import STOP_ID, Guesser, SlotRunner, alone

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Hold, Load, Plan, Preempted, Rejection, Row, Scheduled, Tokens
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.preemption import MAX_PREEMPTIONS
from headrace_engine.core.request import FinishReason, Request, Status
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.core.step_model import StepModel
from headrace_engine.core.tenants import Tenants


class SchedulerMachine(RuleBasedStateMachine):
    """One scheduler, and a plain account of what it was given and what it said."""

    @initialize(
        num_blocks=st.integers(2, 64) | st.integers(2, 16),
        block_size=st.sampled_from([1, 2, 2, 4, 8]),
        max_num_seqs=st.integers(1, 8),
        max_num_batched_tokens=st.integers(1, 48),
        max_model_len=st.integers(2, 96) | st.just(64),
        caching=st.booleans(),
        drafting=st.booleans(),
        policy=st.sampled_from(PolicyName),
    )
    def start(
        self,
        num_blocks: int,
        block_size: int,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        caching: bool,
        drafting: bool,
        policy: PolicyName,
    ) -> None:
        self.capacity = Capacity(max_num_seqs, max_num_batched_tokens, max_model_len, num_blocks, block_size)
        self.tenants = Tenants({"quiet": 2.0})
        self.scheduler = Scheduler(
            capacity=self.capacity,
            policy=policy_of(policy, self.tenants),
            tenants=self.tenants,
            enable_prefix_caching=caching,
            drafter=Guesser() if drafting else None,
            step_model=StepModel(0.001, 0.001, 0.0002, 1e-6, 1e-6),
        )
        self.runner = SlotRunner(num_blocks, block_size)
        self.now_s = 0.0
        self.accepted: dict[str, Request] = {}
        self.finished: dict[str, Finished] = {}
        self.told: dict[str, list[int]] = {}
        self.computed_until: dict[str, int] = {}
        """Next position to compute of each request that holds blocks, by the rows alone."""
        self.loads: dict[str, Load] = {}
        self.leases: dict[str, tuple[list[int], list[list[int | None]]]] = {}
        """Blocks and content of ended requests that are leased."""

    # --- what the world does ---

    @rule(requests=st.lists(one_of_each(REQUESTS), min_size=1, max_size=8))
    def submit(self, requests: list[dict[str, Any]]) -> None:
        for request in requests:
            self._submit(request)

    @rule(data=st.data(), reason=st.sampled_from([FinishReason.ABORT, FinishReason.STOP]))
    def abort(self, data: st.DataObject, reason: FinishReason) -> None:
        if self.accepted:
            self._abort(data.draw(st.sampled_from(sorted(self.accepted))), reason)

    @rule(data=st.data(), num_tokens=st.integers(0, 30))
    def bring(self, data: st.DataObject, num_tokens: int) -> None:
        """KV arrives for a request that waits for it, or that did not wait so long."""
        if not self.loads:
            return
        load = self.loads.pop(data.draw(st.sampled_from(sorted(self.loads))))
        request = self.accepted[load.request_id]
        num_tokens = min(num_tokens, load.end)
        loading = request.status is Status.LOADING
        if loading:
            self.runner.bring(load, request, num_tokens)
        assert self.scheduler.loaded(load.request_id, num_tokens) == loading
        if loading:
            self.computed_until[load.request_id] = max(load.start, num_tokens)

    @rule(data=st.data(), renew=st.booleans())
    def touch_a_lease(self, data: st.DataObject, renew: bool) -> None:
        if not self.leases:
            return
        name = data.draw(st.sampled_from(sorted(self.leases)))
        if renew:
            assert self.scheduler.renew_lease(name, self.now_s + 1.0)
        else:
            assert self.scheduler.end_lease(name)
            assert not self.scheduler.end_lease(name)
            del self.leases[name]

    @rule(elapsed_s=st.floats(0, 2))
    def wait(self, elapsed_s: float) -> None:
        self.now_s += elapsed_s

    @rule(values=one_of_each(LIMITS))
    def change_limits(self, values: dict[str, int]) -> None:
        max_num_seqs = min(values.pop("seqs"), self.capacity.max_num_seqs)
        max_num_batched_tokens = min(values.pop("tokens"), self.capacity.max_num_batched_tokens)
        self.scheduler.set_limits(Limits(max_num_seqs, max_num_batched_tokens, **values))

    @rule(policy=st.sampled_from(PolicyName))
    def change_policy(self, policy: PolicyName) -> None:
        self.scheduler.set_policy(policy_of(policy, self.tenants, age_s=1.0), self.now_s)

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
        held_blocks = set(references)
        for blocks, content in self.leases.values():
            assert self.runner.content(blocks) == content, "leased blocks keep what is in them"
            for block in blocks:
                references[block] = references.get(block, 0) + 1
        pool = self.scheduler._kv.pool
        assert all(pool.references(block) == references.get(block, 0) for block in range(pool.num_blocks))
        in_use = snapshot.leased_blocks + snapshot.referenced_blocks
        assert snapshot.free_blocks + snapshot.cached_blocks + in_use == pool.num_blocks
        assert snapshot.referenced_blocks == len(held_blocks)
        assert in_use == len(references)
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
        for _ in range(100 + work * (1 + MAX_PREEMPTIONS)):
            if not self.scheduler.has_work():
                break
            self.now_s += 0.5
            self._step()
        assert self.finished.keys() == self.accepted.keys()
        self.now_s += 10.0
        self._expire()
        assert self.scheduler.snapshot(self.now_s).kv_usage_ratio == 0
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
            step_key=draw["step_key"],
            remote_tokens=draw["remote_tokens"],
            load_timeout_s=3.0,
            lease_s=draw["lease_s"],
            priority=draw["priority"],
            tenant=draw["tenant"],
            first_token_deadline_s=None
            if draw["first_token_s"] is None
            else self.now_s + draw["first_token_s"],
            queue_deadline_s=None if draw["deadline_s"] is None else self.now_s + draw["deadline_s"],
        )
        rejection = self.scheduler.submit(request, self.now_s)
        longest = self.capacity.max_model_len - min(request.max_tokens, 1)
        fits = 0 < len(prompt) <= min(longest, self.capacity.num_blocks * self.capacity.block_size)
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
        self._expire()
        running = self.scheduler.snapshot(self.now_s).num_running
        before = {key: request.computed_tokens for key, request in self.accepted.items()}
        keys = self.scheduler._life.running.num_keys
        plan = self.scheduler.schedule(self.now_s)
        self._check_limits(plan, running, keys)
        for load in plan.loads:
            assert load.start < load.end
            self.loads[load.request_id] = load
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

    def _expire(self) -> None:
        loading = {key for key, request in self.accepted.items() if request.status is Status.LOADING}
        for event in self.scheduler.expire(self.now_s):
            assert event.reason is FinishReason.EXPIRED
            assert self.accepted[event.request_id].first_scheduled_s is None
            self._finish(event)
        for key in loading:
            if self.accepted[key].status is Status.RUNNING:
                self.computed_until[key] = self.accepted[key].computed_tokens
        self.leases = {key: lease for key, lease in self.leases.items() if key in self.scheduler._life.leases}

    def _check_limits(self, plan: Plan, running: int, keys: int) -> None:
        limits, snapshot = self.scheduler.limits, self.scheduler.snapshot(self.now_s)
        assert (
            plan.num_tokens == sum(len(row.token_ids) for row in plan.rows) <= limits.max_num_batched_tokens
        )
        assert plan.context_tokens == sum(row.start + len(row.token_ids) for row in plan.rows)
        assert snapshot.num_running <= max(limits.max_num_seqs, running)
        assert len({row.request_id for row in plan.rows}) == len(plan.rows) <= self.capacity.max_num_seqs
        cap = limits.long_prefill_token_threshold or limits.max_num_batched_tokens
        assert all(len(row.token_ids) - max(0, row.sampled_rows - 1) <= cap for row in plan.rows)
        partial = [row for row in plan.rows if not row.sampled_rows and not self._ends(row)]
        assert len(partial) <= (limits.max_num_partial_prefills or len(partial))
        assert self.scheduler._life.running.num_keys <= max(limits.max_step_keys or 99, keys)
        may_stall = self.leases or self.scheduler._life.running.loads
        if snapshot.in_flight and not may_stall:
            assert plan.rows, "a step with work computes at least one token"
        if plan.hold is Hold.PREEMPTION:
            assert snapshot.num_running < running, "nothing is admitted in a step that ran out of blocks"

    def _ends(self, row: Row) -> bool:
        return row.start + len(row.token_ids) >= self.accepted[row.request_id].total_tokens

    def _check_writes(self, row: Row) -> None:
        block_size = self.capacity.block_size
        last = (row.start + len(row.token_ids) - 1) // block_size
        for block in row.block_table[row.start // block_size : last + 1]:
            assert self.scheduler._kv.pool.references(block) == 1, "nobody writes into a shared block"

    def _told(self, events: Sequence[object], plan: Plan) -> None:
        for row in plan.rows:
            request = self.accepted[row.request_id]
            until = row.start + len(row.token_ids) if not row.sampled_rows else request.total_tokens - 1
            self.computed_until[row.request_id] = until
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
        if event.request_id in self.scheduler._life.leases:
            blocks = list(self.scheduler._life.leases._blocks[event.request_id])
            self.leases[event.request_id] = (blocks, self.runner.content(blocks))
        told = self.told[event.request_id] + (
            [event.stop_token_id] if event.stop_token_id is not None else []
        )
        expected = alone(request)
        assert told == request.output_token_ids == expected[: len(told)]
        assert event.output_tokens == len(told)
        if event.reason is FinishReason.LENGTH or event.stop_token_id is not None:
            assert told == expected, "what else is in the batch changes nothing"


class TestScheduler(SchedulerMachine.TestCase):
    settings = settings(max_examples=200, stateful_step_count=50)


@pytest.mark.slow
@pytest.mark.timeout(1800)
class TestSchedulerAtLength(SchedulerMachine.TestCase):
    """A hundred thousand steps; more with `HEADRACE_HISTORIES`."""

    settings = settings(
        max_examples=int(os.environ.get("HEADRACE_HISTORIES", "1500")),
        stateful_step_count=60,
        derandomize=False,
        phases=[Phase.generate],
    )
