"""The whole table of quiet tenants and floods, on a step model: the same figures everywhere.

    python tests/bench/scheduler_floods.py

p95 TTFT beside a flood as a multiple of p95 TTFT alone, the median of several seeds of arrivals with the
most, for the engine of `tests/scheduler_flood.py`; then the worst cell for engines of other sizes.
"""

import statistics
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scheduler_drive import modelled
from scheduler_flood import CAPACITY, FLOOD_SHAPES, QUIET_SHAPES, Scenario

from headrace_engine.core.policies import PolicyName
from headrace_engine.core.step_model import StepModel, StepWork

GPU = StepModel(base_s=0.002, weights_s=0.0034, token_s=16e-6, context_token_s=2e-9, attention_token_s=1e-11)
"""An 8B model in 16 bits on a large GPU, by its data sheet, with 2 ms of overhead a step."""
MODEL = StepModel(base_s=0.002, weights_s=0.020, token_s=0.0008, context_token_s=2e-7, attention_token_s=1e-8)
SEEDS, COUNT = (7, 8, 9, 10, 11), 60
BURST_STEPS = 64
"""So many steps of 64 tokens are what a tenant may be behind by."""
OTHER_ENGINES = {
    "8 sequences": (MODEL, {"max_num_seqs": 8}),
    "32 sequences": (MODEL, {"max_num_seqs": 32}),
    "64 tokens a step": (MODEL, {"max_num_batched_tokens": 64}),
    "512 tokens a step": (MODEL, {"max_num_batched_tokens": 512}),
    "blocks for 5,120 tokens": (MODEL, {"num_blocks": 320}),
    "a GPU's steps, 64 sequences, 2,048 tokens": (
        GPU,
        {"max_num_seqs": 64, "max_num_batched_tokens": 2048, "max_model_len": 16384, "num_blocks": 40_000},
    ),
}


def scenario(model: StepModel, **sizes: int) -> Scenario:
    """An engine with these steps, and all but `sizes` as in `tests/scheduler_flood.py`."""
    step_s = model.predict_s(StepWork(tokens=1))
    return Scenario(modelled(model), step_s, model.token_s, COUNT, capacity=replace(CAPACITY, **sizes))


def ratios(engine: Scenario, policy: PolicyName = PolicyName.FAIR) -> dict[str, dict[str, float]]:
    """By quiet tenant and flood."""
    table: dict[str, dict[str, float]] = {}
    for name, quiet in QUIET_SHAPES.items():
        alone_s = engine.p95_s(quiet)
        table[name] = {
            flood: engine.p95_s(quiet, shape, policy=policy) / alone_s
            for flood, shape in FLOOD_SHAPES.items()
        }
    return table


def main() -> None:
    usual = scenario(MODEL)
    tables = [ratios(replace(usual, seed=seed)) for seed in SEEDS]
    first_come = ratios(replace(usual, count=4), PolicyName.FCFS)
    print("\n| beside a flood of: | " + " | ".join(FLOOD_SHAPES) + " | by `fcfs` |")
    print("|---" * (2 + len(FLOOD_SHAPES)) + "|")
    for quiet in QUIET_SHAPES:
        cells = [[table[quiet][flood] for table in tables] for flood in FLOOD_SHAPES]
        shown = [f"{statistics.median(cell):.2f} ({max(cell):.2f})" for cell in cells]
        least, most = min(first_come[quiet].values()), max(first_come[quiet].values())
        print(f"| {quiet} | {' | '.join(shown)} | {least:.0f} to {most:.0f} |", flush=True)
    print("\n| an engine of | worst | which |\n|---|---|---|")
    engines = {name: scenario(model, **sizes) for name, (model, sizes) in OTHER_ENGINES.items()}
    small = engines["64 tokens a step"]
    engines["the same, the flood having computed a burst"] = replace(small, warm_up_steps=BURST_STEPS)
    for name, engine in engines.items():
        table = ratios(engine)
        worst = max((ratio, quiet, flood) for quiet, row in table.items() for flood, ratio in row.items())
        print(f"| {name} | {worst[0]:.2f} | {worst[1]} beside {worst[2]} |", flush=True)


if __name__ == "__main__":
    main()
