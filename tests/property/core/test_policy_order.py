"""What each policy promises, for any arrivals: its order, and its bounds on starvation and unfairness."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.deadline import RELEGATED_SHARE
from headrace_engine.core.limits import Capacity
from headrace_engine.core.plan import Outcome
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.policy import FirstComeFirstServed
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.priority import PriorityClasses
from headrace_engine.core.request import Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.core.shortest import ShortestFirst
from headrace_engine.core.tenants import Prices, Tenants

AGE_S = 10.0
TOKEN_S = 0.5

ARRIVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 4), st.integers(1, 20), st.booleans()),
    min_size=1,
    max_size=40,
)
"""Arrival in seconds, class, prompt tokens, and whether the request leaves the queue before its turn."""


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        (FirstComeFirstServed, lambda request: request.arrival_s),
        (
            lambda: PriorityClasses(FirstComeFirstServed, AGE_S),
            lambda request: (request.arrival_s + AGE_S * request.priority, request.priority),
        ),
        (
            lambda: ShortestFirst(TOKEN_S),
            lambda request: request.arrival_s + TOKEN_S * len(request.prompt_token_ids),
        ),
    ],
    ids=["fcfs", "priority", "shortest"],
)
@given(arrivals=ARRIVALS)
def test_a_policy_serves_in_its_order_whoever_leaves(policy, key: Callable[[Request], object], arrivals):
    waiting = policy()
    requests = [
        Request(f"r{number}", (1,) * tokens, 1, float(arrival_s), priority=priority)
        for number, (arrival_s, priority, tokens, _) in enumerate(sorted(arrivals))
    ]
    for request in requests:
        waiting.push(request, request.arrival_s)
    for request, (*_, leaves) in zip(requests, sorted(arrivals), strict=True):
        if leaves:
            waiting.remove(request)
    expected = [
        request for request, (*_, leaves) in zip(requests, sorted(arrivals), strict=True) if not leaves
    ]
    served = []
    while (head := waiting.peek(100.0)) is not None:
        waiting.remove(head)
        served.append(head)
    assert len(waiting) == 0
    assert [key(request) for request in served] == sorted(key(request) for request in expected)
    assert {request.request_id for request in served} == {request.request_id for request in expected}


@given(late=st.lists(st.booleans(), min_size=1, max_size=120))
def test_of_any_twenty_admissions_one_is_of_those_that_come_too_late(late):
    waiting = policy_of(PolicyName.DEADLINE, Tenants(), PrefillRate())
    for number, is_late in enumerate(late):
        deadline_s = -1.0 if is_late else 1e6 + number
        waiting.push(Request(f"{is_late}{number}", (1,), 1, 0.0, first_token_deadline_s=deadline_s), 0.0)
    left, passed = sum(late), 0
    while (head := waiting.peek(0.0)) is not None:
        waiting.remove(head)
        is_late = head.first_token_deadline_s < 0
        left -= is_late
        passed = 0 if is_late else passed + bool(left)
        assert passed < RELEGATED_SHARE
    assert left == 0


class Simulation:
    """Two tenants that always have requests waiting, on a small engine; everything drawn from one seed."""

    def __init__(self, policy: PolicyName, seed: int, weights: dict[str, float] | None = None) -> None:
        self.random = random.Random(seed)
        self.prices = Prices()
        self.capacity = Capacity(
            max_num_seqs=self.random.randint(1, 8),
            max_num_batched_tokens=self.random.choice([8, 32, 128]),
            max_model_len=64,
            num_blocks=self.random.randint(16, 64),
            block_size=4,
        )
        self.tenants = Tenants(
            Contract({name: Terms(weight) for name, weight in (weights or {}).items()}), prices=self.prices
        )
        rate = PrefillRate()
        waiting = policy_of(policy, self.tenants, rate, age_s=1.0)
        self.scheduler = Scheduler(
            capacity=self.capacity, policy=waiting, tenants=self.tenants, prefill_rate=rate
        )
        self.number = 0
        self.now_s = 0.0

    def submit(self, tenant: str, most_prompt: int = 30, most_output: int = 20) -> None:
        prompt = tuple(self.random.randrange(1000) for _ in range(self.random.randint(1, most_prompt)))
        request = Request(
            f"{tenant}{self.number}",
            prompt,
            self.random.randint(1, most_output),
            self.now_s,
            tenant=tenant,
            priority=self.random.randint(0, 2),
            first_token_deadline_s=self.now_s + self.random.random(),
        )
        self.number += 1
        assert self.scheduler.submit(request, self.now_s) is None

    def step(self) -> object:
        plan = self.scheduler.schedule(self.now_s)
        sampled = {row.request_id: [7] for row in plan.rows if row.sampled_rows}
        self.now_s += 0.025
        self.scheduler.commit(plan, Outcome(sampled, 0.025), self.now_s)
        return [(row.request_id, row.start, list(row.token_ids), list(row.block_table)) for row in plan.rows]

    def top_up(self, sizes: dict[str, tuple[int, int]]) -> None:
        """Twelve requests of each tenant, of at most these sizes, that have not ended."""
        for tenant, size in sizes.items():
            while sum(1 for name in self.scheduler._life.requests if name.startswith(tenant)) < 12:
                self.submit(tenant, *size)

    def gap(self) -> float:
        return self.tenants.service("a") - self.tenants.service("b")

    def bound(self, longest_prompt: int) -> float:
        """VTC's, for two that both wait: twice the dearest prompt, or the output that a pool holds."""
        pool_tokens = self.capacity.num_blocks * self.capacity.block_size
        return 2 * max(self.prices.input * longest_prompt, self.prices.output * pool_tokens)


@given(seed=st.integers(0, 2**32), heavy=st.sampled_from([0.25, 1.0, 3.0]), away_steps=st.integers(0, 60))
def test_the_service_gap_of_two_busy_tenants_stays_within_the_bound(seed, heavy, away_steps):
    """From when both wait: also where one of them was away, for however long."""
    world = Simulation(PolicyName.FAIR, seed, {"a": heavy})
    sizes = {"a": (30, 20), "b": (world.random.choice([3, 30]), world.random.choice([2, 20]))}
    for _ in range(away_steps):
        world.top_up({"b": sizes["b"]})
        world.step()
    world.top_up(sizes)
    start, bound = world.gap(), world.bound(30) / min(1.0, heavy)
    for _ in range(150):
        world.top_up(sizes)
        world.step()
        assert abs(world.gap() - start) <= bound


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_whoever_keeps_asking_is_never_behind_by_more_than_a_burst_and_a_turn(seed):
    """Tenants come and go at random; one asks all the time, and is behind nobody for longer than that."""
    world = Simulation(PolicyName.FAIR, seed)
    names = "bcd"
    for _ in range(150):
        world.top_up({"a": (30, 20)})
        if world.random.random() < 0.2:
            for _ in range(world.random.randint(1, 8)):
                world.submit(world.random.choice(names))
        world.step()
        ahead = max(world.tenants.service(name) for name in names) - world.tenants.service("a")
        assert ahead <= world.bound(30) / 2


@pytest.mark.parametrize("policy", PolicyName)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_the_same_calls_give_the_same_plans(policy, seed):
    def history() -> list[object]:
        world = Simulation(policy, seed)
        plans = []
        for _ in range(30):
            for _ in range(world.random.randint(0, 3)):
                world.submit(world.random.choice(["a", "b"]))
            plans.append(world.step())
        return plans

    assert history() == history()
