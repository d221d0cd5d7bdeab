"""What it costs that no row of a product depends on how many there are: steps with and without it, by turns.

    python tests/bench/batch_invariance_cost.py ~/.cache/headrace/models/smollm2-135m-instruct [--dtype T]

Time of a forward pass and its logits, the least of many: one decode, 32 decodes, a prompt of 512 tokens.
"""

import argparse
import math
from pathlib import Path
from unittest.mock import patch

import torch

from headrace_engine.core.plan import Plan, Row
from headrace_engine.core.sampling import Sampling
from headrace_engine.runner import linear
from headrace_engine.runner.model_runner import ModelRunner

BLOCKS_PER_ROW = 8
CONTEXT = 100
GREEDY = Sampling(temperature=0)


def load(asked: argparse.Namespace) -> ModelRunner:
    return ModelRunner.load(
        asked.model,
        dtype=asked.dtype,
        threads=asked.threads,
        max_model_len=512,
        num_blocks=32 * BLOCKS_PER_ROW,
        max_num_seqs=32,
    )


def load_in_turn(asked: argparse.Namespace) -> list[tuple[bool, ModelRunner]]:
    """Two with and two without: where a model lies in memory makes a tenth of a decode's time, and the first
    that is loaded lies worst.
    """
    load(asked)
    runners = []
    for invariant in (False, True, True, False):
        if invariant:
            runners.append((invariant, load(asked)))
            continue
        with patch.object(linear, "batch_invariant", lambda product, _least_rows: product):
            runners.append((invariant, load(asked)))
    return runners


def decodes(count: int) -> Plan:
    tables = [range(row * BLOCKS_PER_ROW, (row + 1) * BLOCKS_PER_ROW) for row in range(count)]
    return Plan(
        0, tuple(Row(str(row), CONTEXT, (7,), tuple(table), 1, GREEDY) for row, table in enumerate(tables))
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=60)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    runners = load_in_turn(asked)
    prompt = Plan(0, (Row("0", 0, range(512), tuple(range(BLOCKS_PER_ROW)), 1, GREEDY),))
    for name, plan in {"decode 1": decodes(1), "decode 32": decodes(32), "prefill 512": prompt}.items():
        took_s = {invariant: math.inf for invariant, _ in runners}
        for _ in range(asked.repeats):
            for invariant, runner in runners:
                took_s[invariant] = min(took_s[invariant], runner.run(plan).duration_s)
        before_ms, after_ms = 1000 * took_s[False], 1000 * took_s[True]
        print(f"{name:12} {before_ms:8.2f} ms {after_ms:8.2f} ms {after_ms / before_ms - 1:+7.1%}")


if __name__ == "__main__":
    main()
