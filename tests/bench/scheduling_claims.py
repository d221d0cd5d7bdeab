"""What the policies and budgets do for TTFT and ITL, on a real model on the CPU.

    python tests/bench/scheduling_claims.py DIRECTORY [REPEATS]

DIRECTORY is a model's, such as that of `headrace models list`. The clock counts the CPU time of the process,
one thread, so that other work on the machine disturbs the figures little; arrivals are scaled to the step of
the idle engine. Each figure is the median of the repeats; ratios are taken within a repeat, whose arrivals
are the same, and shown from the least to the most. A repeat takes a minute and a half.
"""

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

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


def table(title: str, rows: dict[str, list[float]], unit: str) -> None:
    """The median of each row, and how many times the first row's of the same repeat that is."""
    first_s = next(iter(rows.values()))
    print(f"\n| {title} | ms | {unit} | from, to |\n|---|---|---|---|")
    for name, values in rows.items():
        ratios = [value_s / of_s for value_s, of_s in zip(values, first_s, strict=False)]
        spread = f"{min(ratios):.2f}, {max(ratios):.2f}" if len(ratios) > 1 else ""
        middle_ms = 1000 * statistics.median(values)
        print(f"| {name} | {middle_ms:.0f} | {statistics.median(ratios):.2f} | {spread} |", flush=True)


def itl_of_streams(compute: Compute, step_s: float, repeats: int) -> None:
    most_ms = max(1, round(1150 * step_s))
    cases: dict[str, Callable[[], tuple[float, float | None]]] = {
        "no prompts": lambda: stream_itl_s(compute, step_s, bursts=False),
        "`max_num_batched_tokens` 12": lambda: stream_itl_s(compute, step_s, max_num_batched_tokens=12),
        "`max_num_batched_tokens` 16": lambda: stream_itl_s(compute, step_s, max_num_batched_tokens=16),
        "`max_num_batched_tokens` 32": lambda: stream_itl_s(compute, step_s, max_num_batched_tokens=32),
        f"`max_step_ms` {most_ms}": lambda: stream_itl_s(
            compute, step_s, max_step_ms=most_ms, stream_tokens=300
        ),
        "unchunked": lambda: stream_itl_s(compute, step_s),
        "static batches": lambda: stream_itl_s(compute, step_s, static=True),
    }
    itl_s, ttft_s = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for _ in range(repeats):
        for name, case in cases.items():
            itl, ttft = case()
            itl_s[name].append(itl)
            if ttft is not None:
                ttft_s[name].append(ttft)
    table("ITL of 8 streams while prompts come, p95", itl_s, "of idle")
    table("TTFT of those prompts, p95", ttft_s, "of a budget of 12")


def ttft_of_tenants(compute: Compute, step_s: float, model: StepModel, repeats: int) -> None:
    """One quiet tenant beside every flood, each repeat with other arrivals; p95 over all of a repeat's."""
    quiet = QUIET_SHAPES["chat"]
    ttft_s = defaultdict[str, list[float]](list)
    for seed in range(repeats):
        scenario = Scenario(compute, step_s, model.token_s, COUNT, seed)
        ttft_s["alone"].append(scenario.p95_s(quiet))
        for name, flood in FLOOD_SHAPES.items():
            ttft_s[f"`fair`, {name}"].append(scenario.p95_s(quiet, flood))
    one = Scenario(compute, step_s, model.token_s, count=1)
    ttft_s["`fcfs`, chat, its first"].append(one.p95_s(quiet, FLOOD_SHAPES["chat"], policy=PolicyName.FCFS))
    table("TTFT of a tenant beside one that floods, p95", ttft_s, "of alone")


def main() -> None:
    directory, repeats = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
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
    itl_of_streams(compute, step_s, repeats)
    ttft_of_tenants(compute, step_s, model, repeats)


if __name__ == "__main__":
    main()
