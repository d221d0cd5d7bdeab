"""An engine whose steps take what a model says, give or take noise and pauses, on a clock that they move.

Streams come and go, and prompts come in bursts. The times are those that a time budget is judged by: what a
step would have taken without noise, which nobody can foresee, against what it was to keep within.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scheduler_drive import Arrival, Drive, new_scheduler

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Outcome, Plan
from headrace_engine.core.step import LEAST_CHUNK_RATIO
from headrace_engine.core.step_model import NO_WORK, StepModel, StepWork

CAPACITY = Capacity(
    max_num_seqs=24, max_num_batched_tokens=2048, max_model_len=4096, num_blocks=4096, block_size=16
)
MACHINES = {
    "a CPU": StepModel(0.012, 0.0, 0.0005),
    "a CPU with attention": StepModel(0.012, 0.0, 0.00045, 2.6e-6, 1.1e-6, 0.0003),
    "a GPU": StepModel(0.020, 0.0, 0.00001),
    "a GPU that reads its weights first": StepModel(0.002, 0.0054, 0.000016, 2e-9, 1e-11),
    "where context costs most": StepModel(0.010, 0.0, 0.0002, 4e-6, 1e-6),
}


class Judged(NamedTuple):
    """One step."""

    true_s: float
    allowed_s: float
    """The budget, or what decodes and the least chunk take where they take more."""
    predicted_s: float
    num_prefill_tokens: int


@dataclass(frozen=True)
class Traffic:
    """Who comes when, in steps of the idle engine. After a burst of prompts there are none for as long."""

    seed: int
    prompt_gap_steps: float = 20.0
    stream_gap_steps: float = 12.0
    burst_steps: int = 150
    never_stops: bool = False

    def arrivals(self, step_s: float, num_steps: int) -> Iterator[Arrival]:
        chance = random.Random(self.seed)
        yield from [Arrival(0.0, "streams", 16, 100)] * 8
        for mean_steps, tenant in ((self.stream_gap_steps, "streams"), (self.prompt_gap_steps, "prompts")):
            at_steps = 0.0
            while (at_steps := at_steps + chance.expovariate(1 / mean_steps)) < 2 * num_steps:
                if tenant == "streams":
                    yield Arrival(at_steps * step_s, tenant, chance.randint(8, 32), chance.randint(40, 160))
                elif self.never_stops or at_steps // self.burst_steps % 2:
                    yield Arrival(at_steps * step_s, tenant, chance.randint(100, 700), 1)


@dataclass(frozen=True)
class Machine:
    """What its steps truly take."""

    model: StepModel
    noise_ratio: float = 0.05
    pauses_ratio: float = 0.01
    """The share of steps that something else holds up to eight times as long."""
    slower_from_step: int | None = None
    """From then on everything takes twice as long."""

    def run(
        self, traffic: Traffic, max_step_ms: int, num_steps: int, *, given: StepModel | None = None
    ) -> list[Judged]:
        """Steps in order."""
        chance, judged = random.Random(traffic.seed), list[Judged]()
        queue = {"max_num_queued_reqs": 10**6, "max_num_queued_tokens": 10**9, "max_step_ms": max_step_ms}
        limits = Limits.of(CAPACITY).changed(queue, CAPACITY)
        scheduler = new_scheduler(CAPACITY, limits, step_model=given)

        def compute(plan: Plan) -> Outcome:
            slowness = 2 if self.slower_from_step is not None and len(judged) >= self.slower_from_step else 1
            true_s, learned = slowness * self.model.predict_s(plan.work), scheduler.step_model
            least_s = (1 + LEAST_CHUNK_RATIO) * slowness * self.model.predict_s(_decodes(plan))
            predicted_s = learned.predict_s(plan.work) if learned else 0.0
            judged.append(
                Judged(true_s, max(max_step_ms / 1000, least_s), predicted_s, plan.num_prefill_tokens)
            )
            seen_s = true_s * max(0.5, chance.gauss(1.0, self.noise_ratio))
            pause = 8 if chance.random() < self.pauses_ratio else 1
            return Outcome({row.request_id: [7] for row in plan.rows if row.sampled_rows}, seen_s * pause)

        step_s = self.model.predict_s(StepWork(8, 8 * 100, 0.0, 8))
        drive = Drive(scheduler, compute, list(traffic.arrivals(step_s, num_steps)))
        while len(judged) < num_steps and drive.has_more:
            drive.step()
        return judged


def _decodes(plan: Plan) -> StepWork:
    """The part of a step that no budget holds back."""
    rows = plan.num_decode_tokens
    return StepWork(rows, plan.work.decode_context_tokens, 0.0, rows) if rows else NO_WORK
