"""What the policies and budgets do for TTFT and ITL, on a real model on the CPU.

    python tests/bench/scheduling_claims.py DIRECTORY [REPEATS]

DIRECTORY is a model's, such as that of `headrace models list`. The clock counts the CPU time of the process,
one thread; arrivals are scaled to the step of the idle engine. Every case runs between two runs of what it
is compared with, and its ratio is to the mean of both, so that a machine which changes its speed disturbs
little. Figures are medians of the repeats, and the least and the most; a last table has every run, with what
else the machine did meanwhile. A repeat takes three minutes.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scheduler_disturbance import Disturbance, Watch
from scheduler_drive import Compute
from scheduler_flood import FLOOD_SHAPES, QUIET_SHAPES, Scenario
from scheduler_scenarios import CAPACITY, STREAMS, lowered_and_raised, stream_itl_s

from headrace_engine.core.plan import Outcome, Plan
from headrace_engine.core.policies import PolicyName
from headrace_engine.core.step_learner import StepLearner
from headrace_engine.core.step_model import StepModel
from headrace_engine.runner.model_runner import ModelRunner

COUNT = 12
"""Requests of the quiet tenant in a repeat."""
Case = Callable[[], tuple[float, float | None]]
"""A figure in seconds, and perhaps another of the same run."""


@dataclass(frozen=True)
class Run:
    """A case between two runs of the case that it is compared with."""

    name: str
    figure_s: float
    other_s: float | None
    before_s: float
    after_s: float
    disturbance: Disturbance
    """From the beginning of the one before to the end of the one after."""

    @property
    def ratio(self) -> float:
        return 2 * self.figure_s / (self.before_s + self.after_s)


def real(directory: Path) -> Compute:
    runner = ModelRunner.load(
        directory,
        threads=1,
        max_model_len=CAPACITY.max_model_len,
        block_size=CAPACITY.block_size,
        num_blocks=CAPACITY.num_blocks,
        kv_cache_memory_bytes=None,
        max_num_seqs=CAPACITY.max_num_seqs,
        max_num_batched_tokens=CAPACITY.max_num_batched_tokens,
    )

    def compute(plan: Plan) -> Outcome:
        started_s = time.process_time()
        outcome = runner.run(plan)
        return Outcome(outcome.sampled, time.process_time() - started_s)

    return compute


def learned(compute: Compute) -> StepModel:
    """What the engine learns from streams and some chunks of a prompt."""
    learner = StepLearner()

    def watch(plan: Plan) -> Outcome:
        outcome = compute(plan)
        learner.observe(plan.work, outcome.duration_s, num_prefill_tokens=plan.num_prefill_tokens)
        return outcome

    stream_itl_s(watch, 0.01, max_num_batched_tokens=128)
    assert learner.model is not None
    return learner.model


def compared(base: Case, cases: dict[str, Case], repeats: int) -> list[Run]:
    """Each case once in each repeat, in turns with what it is compared with."""
    runs = []
    for _ in range(repeats):
        watch, (before_s, _) = Watch(), base()
        for name, case in cases.items():
            figure_s, other_s = case()
            next_watch, (after_s, _) = Watch(), base()
            runs.append(Run(name, figure_s, other_s, before_s, after_s, watch.seen()))
            watch, before_s = next_watch, after_s
    return runs


def by_case(runs: list[Run]) -> Iterator[tuple[str, list[Run]]]:
    for name, group in groupby(sorted(runs, key=attrgetter("name")), key=attrgetter("name")):
        yield name, list(group)


def table(title: str, unit: str, base: str, runs: list[Run]) -> None:
    """The figures of each case and its ratios."""
    idle_ms = 1000 * statistics.median(run.before_s for run in runs)
    print(f"\n| {title} | ms | {unit} | from, to |\n|---|---|---|---|\n| {base} | {idle_ms:.0f} | 1.00 | |")
    for name, group in by_case(runs):
        ratios = [run.ratio for run in group]
        middle_ms = 1000 * statistics.median(run.figure_s for run in group)
        spread = f"{min(ratios):.2f}, {max(ratios):.2f}"
        print(f"| {name} | {middle_ms:.0f} | {statistics.median(ratios):.2f} | {spread} |", flush=True)


def others(title: str, runs: list[Run]) -> None:
    """The second figures of the same runs."""
    print(f"\n| {title} | ms | from, to |\n|---|---|---|")
    for name, group in by_case(runs):
        values_ms = [1000 * run.other_s for run in group if run.other_s is not None]
        spread = f"{min(values_ms):.0f}, {max(values_ms):.0f}"
        print(f"| {name} | {statistics.median(values_ms):.0f} | {spread} |", flush=True)


def every_run(runs: list[Run]) -> None:
    """What a ratio that stands out came with."""
    print("\n| run | ratio | ms | before, after | stolen CPUs | other CPUs | switches a second |")
    print("|---" * 7 + "|")
    for run in runs:
        times = f"{1000 * run.figure_s:.1f} | {1000 * run.before_s:.1f}, {1000 * run.after_s:.1f}"
        print(f"| {run.name} | {run.ratio:.2f} | {times} | {run.disturbance} |", flush=True)


def itl_of_streams(compute: Compute, step_s: float, repeats: int) -> list[Run]:
    most_ms = max(1, round(1150 * step_s))
    cases: dict[str, Case] = {
        "`max_num_batched_tokens` 12": lambda: stream_itl_s(compute, step_s, max_num_batched_tokens=12),
        "`max_num_batched_tokens` 16": lambda: stream_itl_s(compute, step_s, max_num_batched_tokens=16),
        "`max_num_batched_tokens` 32": lambda: stream_itl_s(compute, step_s, max_num_batched_tokens=32),
        f"`max_step_ms` {most_ms}": lambda: stream_itl_s(compute, step_s, max_step_ms=most_ms),
        "static batches": lambda: stream_itl_s(compute, step_s, static=True),
        "unchunked": lambda: stream_itl_s(compute, step_s),
    }
    runs = compared(lambda: stream_itl_s(compute, step_s, bursts=False), cases, repeats)
    table("ITL of 8 streams while prompts come, p95", "of idle", "no prompts", runs)
    others("TTFT of those prompts, p95", runs)
    return runs


def ttft_of_tenants(compute: Compute, step_s: float, model: StepModel, repeats: int) -> list[Run]:
    """One quiet tenant beside every flood, each repeat with other arrivals; p95 over all of a repeat's."""
    quiet, runs = QUIET_SHAPES["chat"], list[Run]()
    for seed in range(repeats):
        scenario = Scenario(compute, step_s, model.token_s, COUNT, seed)
        cases: dict[str, Case] = {
            f"`fair`, {name}": lambda flood=flood, scenario=scenario: (scenario.p95_s(quiet, flood), None)
            for name, flood in FLOOD_SHAPES.items()
        }
        runs += compared(lambda scenario=scenario: (scenario.p95_s(quiet), None), cases, 1)
    table("TTFT of a tenant beside one that floods, p95", "of alone", "alone", runs)
    one, flood = Scenario(compute, step_s, model.token_s, count=1), FLOOD_SHAPES["chat"]
    alone_s, first_s = one.p95_s(quiet), one.p95_s(quiet, flood, policy=PolicyName.FCFS)
    print(f"| `fcfs`, chat, its first | {1000 * first_s:.0f} | {first_s / alone_s:.2f} | |", flush=True)
    return runs


def main() -> None:
    directory, repeats = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    compute = real(directory)
    model = learned(compute)
    step_s = min(stream_itl_s(compute, 0.01, bursts=False)[0] for _ in range(3))
    print(f"{directory.name}: {step_s * 1000:.1f} ms a step of {STREAMS} decodes; {model}", flush=True)
    drive, admitted, rows = lowered_and_raised(compute)
    print(
        f"max_num_seqs 32 -> 4 -> 32: {sum(admitted)} admitted above the lowered limit, {rows} rows in the "
        f"steps after it was raised, {drive.seen['all'].num_finished} of {drive.num_submitted} finished",
        flush=True,
    )
    every_run(itl_of_streams(compute, step_s, repeats))
    every_run(ttft_of_tenants(compute, step_s, model, repeats))


if __name__ == "__main__":
    main()
