"""Drives a scheduler on a clock that steps move, and keeps what clients would see: TTFT and ITL.

`compute` says what a step samples and how long it took: a step model in tests, a real model's CPU time in
benchmarks. Between steps the clock stands, and while there is no work it jumps to the next arrival.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Outcome, Plan, Tokens
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.request import Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.core.step_model import StepModel
from headrace_engine.core.tenants import Tenants

Compute = Callable[[Plan], Outcome]


class Arrival(NamedTuple):
    at_s: float
    tenant: str
    prompt_tokens: int
    max_tokens: int


@dataclass
class Seen:
    """What the clients of one tenant saw, in seconds."""

    ttft_s: list[float] = field(default_factory=list)
    itl_s: list[float] = field(default_factory=list)
    num_finished: int = 0


def new_scheduler(
    capacity: Capacity, limits: Limits, policy: PolicyName = PolicyName.FCFS, **options: object
) -> Scheduler:
    """One without prefix caching: equal prompts cost what different ones do."""
    tenants, rate = Tenants(), PrefillRate()
    order = policy_of(policy, tenants, rate)
    return Scheduler(
        capacity=capacity,
        limits=limits,
        policy=order,
        tenants=tenants,
        prefill_rate=rate,
        enable_prefix_caching=False,
        **options,
    )


def modelled(model: StepModel) -> Compute:
    """Steps that take what the model predicts; every token is 7."""

    def compute(plan: Plan) -> Outcome:
        sampled = {row.request_id: [7] for row in plan.rows if row.sampled_rows}
        return Outcome(sampled, model.predict_s(plan.work))

    return compute


class Drive:
    """One scheduler and its clock."""

    def __init__(self, scheduler: Scheduler, compute: Compute, arrivals: Sequence[Arrival]) -> None:
        self.scheduler = scheduler
        self.now_s = 0.0
        self.seen = defaultdict[str, Seen](Seen)
        self.num_submitted = 0
        self._compute = compute
        self._to_come = sorted(arrivals, reverse=True)
        self._requests: dict[str, Request] = {}
        self._told_s: dict[str, float] = {}

    @property
    def has_more(self) -> bool:
        return bool(self._to_come) or self.scheduler.has_work()

    def step(self) -> Plan:
        """One step, and what has come by then."""
        if not self.scheduler.has_work():
            self.now_s = max(self.now_s, self._to_come[-1].at_s)
        while self._to_come and self._to_come[-1].at_s <= self.now_s:
            self.submit(self._to_come.pop())
        plan = self.scheduler.schedule(self.now_s)
        outcome = self._compute(plan)
        self.now_s += outcome.duration_s
        for event in self.scheduler.commit(plan, outcome, self.now_s):
            match event:
                case Tokens(request_id):
                    self._token(request_id)
                case Finished(request_id):
                    self.seen[self._requests[request_id].tenant].num_finished += 1
        return plan

    def run(self) -> "Drive":
        """Until everything that comes has ended."""
        while self.has_more:
            self.step()
        return self

    def submit(self, arrival: Arrival) -> None:
        """A request comes now."""
        self.num_submitted += 1
        prompt = tuple(5 + (self.num_submitted + i) % 40 for i in range(arrival.prompt_tokens))
        name = f"r{self.num_submitted}"
        request = Request(name, prompt, arrival.max_tokens, arrival.at_s, tenant=arrival.tenant)
        self._requests[name] = request
        assert self.scheduler.submit(request, self.now_s) is None

    def _token(self, request_id: str) -> None:
        request = self._requests[request_id]
        seen, before_s = self.seen[request.tenant], self._told_s.get(request_id)
        if before_s is None:
            seen.ttft_s.append(self.now_s - request.arrival_s)
        else:
            seen.itl_s.append(self.now_s - before_s)
        self._told_s[request_id] = self.now_s


def quantile(values: Sequence[float], share: float) -> float:
    """The least of `values` that so large a share of them does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]
