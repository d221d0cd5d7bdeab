"""A tenant that asks now and then, beside one that never stops: how much longer its first tokens take.

The quiet tenant comes at random (Poisson) and wants a fifth of the engine, of its time or of its slots: less
than its half, so it should hardly notice the other. It has asked once before; then the flood has been at it
for twenty full steps when it comes again, and keeps 64 requests waiting at every moment. "Alone" and "beside"
see the same arrivals.
Every quiet shape is paired with every flood; none is left out. The floods are those of real platforms: a loop
over short notes, the quiet tenant's own kind, long answers (which hold slots) and long prompts (which fill
steps).

The quiet prompts begin at a quarter of a step's token budget. No order can hold one that is computed within
the time of a single decode step to 1.5 times that: it waits for the step under way, and shares the next.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scheduler_drive import Arrival, Compute, Drive, new_scheduler, quantile

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.policies import PolicyName

CAPACITY = Capacity(
    max_num_seqs=16, max_num_batched_tokens=256, max_model_len=2048, num_blocks=2048, block_size=16
)
QUIET, FLOOD = "quiet", "flood"
QUIET_SHARE = 0.2
FLOOD_WAITING = 64
WARM_UP_STEPS = 20


class Shape(NamedTuple):
    """Mean length of a tenant's prompts and answers, in tokens; each is drawn from half to one and a half."""

    prompt_tokens: int
    max_tokens: int


QUIET_SHAPES = {
    "questions": Shape(128, 32),
    "chat": Shape(256, 64),
    "tools": Shape(512, 16),
    "documents": Shape(1024, 64),
}
FLOOD_SHAPES = {
    "notes": Shape(48, 12),
    "chat": Shape(256, 64),
    "stories": Shape(64, 256),
    "documents": Shape(1024, 16),
}


@dataclass(frozen=True)
class Scenario:
    """One engine and the quiet tenant's arrivals: `step_s` is what a step of few tokens takes, `token_s` what
    each adds to a full one.
    """

    compute: Compute
    step_s: float
    token_s: float
    count: int
    seed: int = 7
    capacity: Capacity = CAPACITY
    warm_up_steps: int = WARM_UP_STEPS
    """Full steps of the flood before the quiet tenant comes again."""

    def ttft_s(
        self,
        quiet: Shape,
        flood: Shape | None = None,
        *,
        policy: PolicyName = PolicyName.FAIR,
        flood_terms: Terms | None = None,
    ) -> list[float]:
        """The quiet tenant's times to first token, beside a flood or alone."""
        queue = {"max_num_queued_reqs": 10**6, "max_num_queued_tokens": 10**9}
        limits = Limits.of(self.capacity).changed(queue, self.capacity)
        scheduler = new_scheduler(self.capacity, limits, policy)
        scheduler.set_contract(Contract({FLOOD: flood_terms or Terms()}))
        arrivals = [Arrival(0.0, QUIET, 16, 1), *self._arrivals(quiet)]
        drive, chance = Drive(scheduler, self.compute, arrivals), random.Random(11)
        drive.step()
        while len(drive.seen[QUIET].ttft_s) <= self.count:
            missing = FLOOD_WAITING - scheduler.snapshot(drive.now_s).num_newcomers
            for _ in range(missing if flood else 0):
                drive.submit(_drawn(drive.now_s, FLOOD, flood, chance))
            drive.step()
        return drive.seen[QUIET].ttft_s[1:]

    def p95_s(self, quiet: Shape, flood: Shape | None = None, **rest: object) -> float:
        return quantile(self.ttft_s(quiet, flood, **rest), 0.95)

    def _arrivals(self, shape: Shape) -> Iterator[Arrival]:
        """They take `QUIET_SHARE` of the time that tokens take, or of the slots, whichever is more."""
        chance = random.Random(self.seed)
        at_s = self.warm_up_steps * self.capacity.max_num_batched_tokens * self.token_s
        answer_s = shape.max_tokens * self.step_s / self.capacity.max_num_seqs
        gap_s = max(sum(shape) * self.token_s, answer_s) / QUIET_SHARE
        for _ in range(self.count):
            at_s += chance.expovariate(1 / gap_s)
            yield _drawn(at_s, QUIET, shape, chance)


def _drawn(at_s: float, tenant: str, shape: Shape, chance: random.Random) -> Arrival:
    prompt_tokens, max_tokens = (max(1, round(length * (0.5 + chance.random()))) for length in shape)
    return Arrival(at_s, tenant, prompt_tokens, max_tokens)
