"""A step loop with a fake clock: each step takes 10 ms, and every sampled token is 7 unless the story says
otherwise.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace_engine.core.drafter import Drafter
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Event, Finished, Outcome, Plan, Rejection
from headrace_engine.core.policy import Policy
from headrace_engine.core.request import Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.core.snapshot import Snapshot
from headrace_engine.core.step_model import StepModel
from headrace_engine.core.tenants import Tenants

STEP_S = 0.01


class Loop:
    """One scheduler, driven as an engine drives it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.now_s = 0.0
        self.requests: dict[str, Request] = {}
        self.finished: dict[str, Finished] = {}
        self.events: list[Event] = []

    def submit(
        self, request_id: str, prompt: int | Sequence[int], max_tokens: int = 8, **fields: Any
    ) -> Rejection | None:
        """Submit a prompt, given as its tokens or as a length of tokens that no other request has."""
        if isinstance(prompt, int):
            prompt = [1000 * (len(self.requests) + 1) + position for position in range(prompt)]
        request = Request(request_id, tuple(prompt), max_tokens, self.now_s, **fields)
        rejection = self.scheduler.submit(request, self.now_s)
        if rejection is None:
            self.requests[request_id] = request
        return rejection

    def plan(self) -> Plan:
        self._note(self.scheduler.expire(self.now_s))
        return self.scheduler.schedule(self.now_s)

    def commit(self, plan: Plan, sampled: dict[str, list[int]] | None = None) -> list[Event]:
        tokens = {row.request_id: [7] for row in plan.rows if row.sampled_rows} | (sampled or {})
        self.now_s += STEP_S
        return self._note(self.scheduler.commit(plan, Outcome(tokens, STEP_S), self.now_s))

    def step(self) -> dict[str, int]:
        """One step; how many tokens of each request it computed, in the order of its rows."""
        plan = self.plan()
        self.commit(plan)
        return {row.request_id: len(row.token_ids) for row in plan.rows}

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def change_limits(self, **values: int) -> None:
        self.scheduler.set_limits(self.scheduler.limits.changed(values, self.scheduler.capacity))

    def drain(self, most_steps: int = 10_000) -> None:
        while self.scheduler.has_work():
            self.step()
            most_steps -= 1
            assert most_steps, "the work never ends"

    @property
    def snapshot(self) -> Snapshot:
        return self.scheduler.snapshot(self.now_s)

    def _note(self, events: Sequence[Any]) -> list[Any]:
        for event in events:
            self.events.append(event)
            if isinstance(event, Finished):
                assert event.request_id not in self.finished
                self.finished[event.request_id] = event
        return list(events)


@pytest.fixture
def make_loop() -> Callable[..., Loop]:
    """Makes a loop: capacity and limits by keyword, generous where a story does not name them."""

    def make(
        *,
        enable_prefix_caching: bool = True,
        drafter: Drafter | None = None,
        step_model: StepModel | None = None,
        policy: Policy | None = None,
        tenants: Tenants | None = None,
        **values: int,
    ) -> Loop:
        capacity = Capacity(
            max_num_seqs=values.pop("max_num_seqs", 8),
            max_num_batched_tokens=values.pop("max_num_batched_tokens", 64),
            max_model_len=values.pop("max_model_len", 1024),
            num_blocks=values.pop("num_blocks", 256),
            block_size=values.pop("block_size", 4),
        )
        limits = Limits.of(capacity).changed(values, capacity)
        return Loop(
            Scheduler(
                capacity=capacity,
                limits=limits,
                policy=policy,
                tenants=tenants,
                enable_prefix_caching=enable_prefix_caching,
                drafter=drafter,
                step_model=step_model,
            )
        )

    return make
