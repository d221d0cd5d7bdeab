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
from headrace_engine.core.step_model import StepModel

MODEL = StepModel(base_s=0.002, weights_s=0.020, token_s=0.0008, context_token_s=2e-7, attention_token_s=1e-8)
SEEDS, COUNT = (7, 8, 9, 10, 11), 60
OTHER_ENGINES = {
    "8 sequences": {"max_num_seqs": 8},
    "32 sequences": {"max_num_seqs": 32},
    "64 tokens a step": {"max_num_batched_tokens": 64},
    "512 tokens a step": {"max_num_batched_tokens": 512},
    "blocks for 5,120 tokens": {"num_blocks": 320},
}


def ratios(scenario: Scenario, policy: PolicyName = PolicyName.FAIR) -> dict[str, dict[str, float]]:
    """By quiet tenant and flood."""
    table: dict[str, dict[str, float]] = {}
    for name, quiet in QUIET_SHAPES.items():
        alone_s = scenario.p95_s(quiet)
        table[name] = {
            flood: scenario.p95_s(quiet, shape, policy=policy) / alone_s
            for flood, shape in FLOOD_SHAPES.items()
        }
    return table


def main() -> None:
    scenario = Scenario(modelled(MODEL), MODEL.token_s, COUNT)
    tables = [ratios(replace(scenario, seed=seed)) for seed in SEEDS]
    first_come = ratios(replace(scenario, count=4), PolicyName.FCFS)
    print("\n| beside a flood of: | " + " | ".join(FLOOD_SHAPES) + " | by `fcfs` |")
    print("|---" * (2 + len(FLOOD_SHAPES)) + "|")
    for quiet in QUIET_SHAPES:
        cells = [[table[quiet][flood] for table in tables] for flood in FLOOD_SHAPES]
        shown = [f"{statistics.median(cell):.2f} ({max(cell):.2f})" for cell in cells]
        least, most = min(first_come[quiet].values()), max(first_come[quiet].values())
        print(f"| {quiet} | {' | '.join(shown)} | {least:.0f} to {most:.0f} |", flush=True)
    print("\n| an engine of | worst | which |\n|---|---|---|")
    for name, sizes in OTHER_ENGINES.items():
        table = ratios(replace(scenario, capacity=replace(CAPACITY, **sizes)))
        worst = max((ratio, quiet, flood) for quiet, row in table.items() for flood, ratio in row.items())
        print(f"| {name} | {worst[0]:.2f} | {worst[1]} beside {worst[2]} |", flush=True)


if __name__ == "__main__":
    main()
