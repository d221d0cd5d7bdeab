"""A hundred thousand steps: the acts of `scheduler_world`, drawn by a plain generator from a printed seed.

`HEADRACE_STEPS` asks for more of them, `HEADRACE_SEED` for others.
"""

import os
import random
from typing import Any

import pytest
from scheduler_strategies import CAPACITIES, LIMITS, REQUESTS, TERMS, Choices, num_picks, pick
from scheduler_world import SchedulerWorld

from headrace_engine.core.limits import Capacity
from headrace_engine.core.policies import PolicyName
from headrace_engine.core.request import FinishReason

STEPS = int(os.environ.get("HEADRACE_STEPS", "100000"))
SEED = int(os.environ.get("HEADRACE_SEED", "0"))
ACTS_A_HISTORY = 100


class History:
    """One scheduler's life; everything in it follows from its seed."""

    def __init__(self, seed: int, policy: PolicyName) -> None:
        self._random = random.Random(seed)
        self._policies = list(PolicyName)
        self._world = SchedulerWorld(
            Capacity(**self._draw(CAPACITIES)),
            policy,
            caching=self._random.random() < 0.7,
            drafting=self._random.random() < 0.3,
            static=self._random.random() < 0.1,
        )

    def live(self) -> int:
        """Live through it; how many steps it took."""
        for _ in range(ACTS_A_HISTORY):
            self._act()
            self._world.check()
        self._world.end()
        return self._world.num_steps

    def _act(self) -> None:
        world, chance = self._world, self._random.random()
        if chance < 0.2 or not world.account.live:
            for _ in range(self._random.randint(1, 6)):
                world.submit(self._draw(REQUESTS))
        elif chance < 0.32 and world.account.live:
            reason = self._random.choice([FinishReason.ABORT, FinishReason.STOP])
            world.abort(self._random.choice(list(world.account.live)), reason)
        elif chance < 0.37:
            self._change()
        elif chance < 0.45:
            self._outside()
        elif chance < 0.48:
            world.break_a_step()
        elif chance < 0.6:
            world.step(lambda names: self._random.sample(names, min(len(names), 2)))
        else:
            self._run(self._random.randint(1, 40))

    def _run(self, most_steps: int) -> None:
        """Steps, until nothing is left to compute before something else happens."""
        for _ in range(most_steps):
            before = self._world.num_steps
            self._world.wait(0.05)
            self._world.step()
            if self._world.num_steps == before:
                return

    def _change(self) -> None:
        match self._random.randrange(3):
            case 0:
                self._world.change_limits(self._draw(LIMITS))
            case 1:
                self._world.change_contract(self._draw(TERMS))
            case _:
                self._world.change_policy(self._random.choice(self._policies))

    def _outside(self) -> None:
        """Time passes, KV comes from elsewhere, leases are renewed and ended."""
        world = self._world
        world.wait(self._random.random() * 2)
        if world.loads:
            world.bring(self._random.choice(list(world.loads)), self._random.randint(0, 30))
        if world.account.leases:
            renew = self._random.random() < 0.5
            world.touch_lease(self._random.choice(list(world.account.leases)), renew=renew)

    def _draw(self, choices: Choices) -> dict[str, Any]:
        return pick(choices, self._random.randrange(num_picks(choices)))


@pytest.mark.parametrize("policy", PolicyName)
@pytest.mark.timeout(1800 if STEPS > 100_000 else 600)
def test_long_histories_keep_every_promise(policy: PolicyName) -> None:
    wanted, steps, seed = -(-STEPS // len(PolicyName)), 0, SEED
    while steps < wanted:
        print(f"{policy}: seed {seed}")
        steps += History(seed, policy).live()
        seed += 1
    assert steps >= wanted
