"""Any arrivals, aborts, failures, loads, drafts and changes on small pools keep every promise.

The runner keeps KV slot by slot (`slot_runner`), so that every plan is proved right by what it reads and
writes; `scheduler_account` compares all that was told. Here hypothesis draws what happens, and shrinks it.
"""

import os
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scheduler_strategies import CAPACITIES, LIMITS, REQUESTS, TERMS, one_of_each
from scheduler_world import SchedulerWorld

from headrace_engine.core.limits import Capacity
from headrace_engine.core.policies import PolicyName
from headrace_engine.core.request import FinishReason


class SchedulerMachine(RuleBasedStateMachine):
    """Draws what happens in a world."""

    @initialize(
        capacity=one_of_each(CAPACITIES).map(lambda values: Capacity(**values)),
        policy=st.sampled_from(PolicyName),
        caching=st.booleans(),
        drafting=st.booleans(),
        static=st.sampled_from([False, False, False, True]),
    )
    def start(
        self, capacity: Capacity, policy: PolicyName, *, caching: bool, drafting: bool, static: bool
    ) -> None:
        self.world = SchedulerWorld(capacity, policy, caching=caching, drafting=drafting, static=static)

    @rule(requests=st.lists(one_of_each(REQUESTS), min_size=1, max_size=8))
    def submit(self, requests: list[dict[str, Any]]) -> None:
        for request in requests:
            self.world.submit(request)

    @rule(data=st.data(), reason=st.sampled_from([FinishReason.ABORT, FinishReason.STOP]))
    def abort(self, data: st.DataObject, reason: FinishReason) -> None:
        if accepted := self.world.account.accepted:
            self.world.abort(data.draw(st.sampled_from(sorted(accepted))), reason)

    @rule(data=st.data(), num_tokens=st.integers(0, 30))
    def bring(self, data: st.DataObject, num_tokens: int) -> None:
        if self.world.loads:
            self.world.bring(data.draw(st.sampled_from(sorted(self.world.loads))), num_tokens)

    @rule(data=st.data(), renew=st.booleans())
    def touch_a_lease(self, data: st.DataObject, *, renew: bool) -> None:
        if leases := self.world.account.leases:
            self.world.touch_lease(data.draw(st.sampled_from(sorted(leases))), renew=renew)

    @rule(elapsed_s=st.floats(0, 2))
    def wait(self, elapsed_s: float) -> None:
        self.world.wait(elapsed_s)

    @rule(values=one_of_each(LIMITS))
    def change_limits(self, values: dict[str, int]) -> None:
        self.world.change_limits(values)

    @rule(terms=one_of_each(TERMS))
    def change_contract(self, terms: dict[str, Any]) -> None:
        self.world.change_contract(terms)

    @rule(policy=st.sampled_from(PolicyName))
    def change_policy(self, policy: PolicyName) -> None:
        self.world.change_policy(policy)

    @rule(steps=st.integers(1, 20))
    def run_steps(self, steps: int) -> None:
        for _ in range(steps):
            self.world.step()

    @rule(data=st.data())
    def abort_while_computing(self, data: st.DataObject) -> None:
        self.world.step(
            lambda names: data.draw(st.lists(st.sampled_from(names), max_size=3)) if names else ()
        )

    @rule()
    def break_a_step(self) -> None:
        self.world.break_a_step()

    @invariant()
    def blocks_are_conserved_and_counts_are_exact(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        """Every request ends, each once, and nothing is held after that."""
        if hasattr(self, "world"):
            self.world.end()


class TestScheduler(SchedulerMachine.TestCase):
    settings = settings(max_examples=150, stateful_step_count=50)


HISTORIES = int(os.environ.get("HEADRACE_HISTORIES", "0"))


@pytest.mark.skipif(not HISTORIES, reason="HEADRACE_HISTORIES says how many")
@pytest.mark.timeout(1800)
class TestSchedulerAtLength(SchedulerMachine.TestCase):
    """As many histories as are asked for, other ones each time."""

    settings = settings(
        max_examples=HISTORIES or 1,
        stateful_step_count=60,
        derandomize=False,
        phases=[Phase.generate],
    )
