"""What can happen to a scheduler, on a small pool with a fake clock: each act is checked as it is done.

Who draws the acts is another matter: hypothesis, to find the smallest history that breaks a promise, or a
plain seeded generator, for many steps in little time.
"""

from collections.abc import Callable, Sequence
from typing import Any

from scheduler_account import Account
from slot_runner import STOP_ID, Guesser, SlotRunner

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Load, Plan, Rejection
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.preemption import MAX_PREEMPTIONS
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.request import FinishReason, Request, Status
from headrace_engine.core.sampling import Sampling
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.core.step_model import StepModel
from headrace_engine.core.tenants import Tenants

QUEUE_REASONS = {
    *("queue_full_requests", "queue_full_tokens"),
    *("tenant_queue_full_requests", "tenant_queue_full_tokens"),
}


class SchedulerWorld:
    """One scheduler, its runner and its account."""

    def __init__(
        self, capacity: Capacity, policy: PolicyName, *, caching: bool, drafting: bool, static: bool
    ) -> None:
        self.capacity = capacity
        self.tenants, self.rate = Tenants(Contract({"quiet": Terms(weight=2.0)})), PrefillRate()
        self.scheduler = Scheduler(
            capacity=capacity,
            policy=policy_of(policy, self.tenants, self.rate),
            tenants=self.tenants,
            prefill_rate=self.rate,
            enable_prefix_caching=caching,
            drafter=Guesser() if drafting else None,
            step_model=StepModel(0.001, 0.001, 0.0002, 1e-6, 1e-6) if caching else None,
            static_batches=static,
        )
        self.runner = SlotRunner(capacity.num_blocks, capacity.block_size)
        self.account = Account(self.scheduler, self.runner)
        self.loads: dict[str, Load] = {}
        self.now_s = 0.0
        self.num_steps = 0
        """Those that computed something."""

    def submit(self, draw: dict[str, Any]) -> None:
        prompt = (*[1 + (draw["stem"] + i) % 4 for i in range(draw["stem_length"])], *draw["tail"])
        first_token_s, deadline_s = draw["first_token_s"], draw["deadline_s"]
        request = Request(
            f"r{len(self.account.accepted)}",
            prompt,
            draw["max_tokens"],
            self.now_s,
            sampling=Sampling(prompt_logprobs=draw["prompt_logprobs"]),
            leader=f"r{len(self.account.accepted) - 1}" if draw["follows"] else "",
            stop_token_ids=frozenset([STOP_ID] if draw["stops"] else []),
            min_tokens=draw["min_tokens"],
            block_salt=draw["salt"],
            step_key=draw["step_key"],
            remote_tokens=draw["remote_tokens"],
            load_timeout_s=3.0,
            lease_s=draw["lease_s"],
            priority=draw["priority"],
            tenant=draw["tenant"],
            first_token_deadline_s=None if first_token_s is None else self.now_s + first_token_s,
            queue_deadline_s=None if deadline_s is None else self.now_s + deadline_s,
        )
        rejection = self.scheduler.submit(request, self.now_s)
        longest = self.capacity.max_model_len - min(request.max_tokens, 1)
        fits = 0 < len(prompt) <= min(longest, self.capacity.num_blocks * self.capacity.block_size)
        assert fits or rejection is not None
        if rejection is None:
            self.account.accept(request)
        else:
            assert fits == (rejection.reason in QUEUE_REASONS), rejection

    def abort(self, request_id: str, reason: FinishReason) -> None:
        event = self.scheduler.abort(request_id, reason)
        assert (event is not None) == (request_id in self.account.live)
        if event is not None:
            assert event.reason is reason
            self.account.finish(event)

    def bring(self, request_id: str, num_tokens: int) -> None:
        """KV arrives for a request that waits for it, or that did not wait so long."""
        load = self.loads.pop(request_id)
        request = self.account.accepted[request_id]
        num_tokens = min(num_tokens, load.end)
        loading = request.status is Status.LOADING
        if loading:
            self.runner.bring(load, request, num_tokens)
        assert self.scheduler.loaded(request_id, num_tokens) == loading
        if loading:
            self.account.computed_until[request_id] = max(load.start, num_tokens)

    def touch_lease(self, request_id: str, *, renew: bool) -> None:
        if renew:
            assert self.scheduler.renew_lease(request_id, self.now_s + 1.0)
        else:
            assert self.scheduler.end_lease(request_id)
            assert not self.scheduler.end_lease(request_id)
            del self.account.leases[request_id]

    def wait(self, elapsed_s: float) -> None:
        self.now_s += elapsed_s

    def change_limits(self, draw: dict[str, int]) -> None:
        values = dict(draw)
        max_num_seqs = min(values.pop("seqs"), self.capacity.max_num_seqs)
        max_num_batched_tokens = min(values.pop("tokens"), self.capacity.max_num_batched_tokens)
        self.scheduler.set_limits(Limits(max_num_seqs, max_num_batched_tokens, **values))

    def change_contract(self, draw: dict[str, Any]) -> None:
        self.scheduler.set_contract(Contract({"flood": Terms(**draw)}))

    def change_policy(self, policy: PolicyName) -> None:
        self.scheduler.set_policy(policy_of(policy, self.tenants, self.rate, age_s=1.0), self.now_s)

    def step(self, abort: Callable[[Sequence[str]], Sequence[str]] = lambda _names: ()) -> None:
        """One step; `abort` chooses who of those in it is aborted while it is computed."""
        plan = self._plan()
        outcome = self.runner.run(plan, self.account.accepted)
        for request_id in abort([row.request_id for row in plan.rows]):
            self.abort(request_id, FinishReason.ABORT)
        self.account.note(self.scheduler.commit(plan, outcome, self.now_s), plan)

    def break_a_step(self) -> None:
        plan = self._plan()
        self.runner.poison(plan)
        events = self.scheduler.fail(plan, "the device fell over")
        self.account.note(events, plan)
        ended = {event.request_id for event in events if isinstance(event, Finished)}
        assert ended == {row.request_id for row in plan.rows}

    def check(self) -> None:
        self.account.check_blocks()
        self.account.check_counts(self.now_s)

    def end(self) -> None:
        """Every request ends, each once, and nothing is held after that."""
        self.scheduler.close()
        late = self.scheduler.submit(Request("late", (1,), 1, self.now_s), self.now_s)
        assert isinstance(late, Rejection)
        assert late.reason == "draining"
        work = sum(request.token_limit for request in self.account.live.values())
        for _ in range(100 + work * (1 + MAX_PREEMPTIONS)):
            if not self.scheduler.has_work():
                break
            self.now_s += 0.5
            self.step()
        assert self.account.finished.keys() == self.account.accepted.keys()
        self.now_s += 10.0
        self._expire()
        assert self.scheduler.snapshot(self.now_s).kv_usage_ratio == 0
        self.check()

    def _plan(self) -> Plan:
        self._expire()
        account = self.account
        before = {key: request.computed_tokens for key, request in account.live.items()}
        running, keys = account.running(), account.num_step_keys()
        plan = self.scheduler.schedule(self.now_s)
        account.check_plan(plan, running, keys)
        self.num_steps += bool(plan.rows)
        for load in plan.loads:
            assert load.start < load.end
            self.loads[load.request_id] = load
        for request_id in plan.preempted:
            # One that gave way may find room beside whom it gave way to.
            account.computed_until.pop(request_id, None)
            before[request_id] = 0
        for row in plan.rows:
            account.check_row(row, before[row.request_id])
        return plan

    def _expire(self) -> None:
        account = self.account
        loading = {key for key, request in account.live.items() if request.status is Status.LOADING}
        for event in self.scheduler.expire(self.now_s):
            assert event.reason is FinishReason.EXPIRED
            assert account.accepted[event.request_id].first_scheduled_s is None
            account.finish(event)
        for key in loading:
            if account.accepted[key].status is Status.RUNNING:
                account.computed_until[key] = account.accepted[key].computed_tokens
        leased = self.scheduler._life.leases
        account.leases = {key: lease for key, lease in account.leases.items() if key in leased}
