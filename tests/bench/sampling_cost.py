"""What choosing 32 tokens costs: plainly, and with each of the parameters that ask for more.

    python tests/bench/sampling_cost.py [--vocabulary 49152] [--rows 32] [--said 1000]

Processor time of one thread a step, the least of many. `argmax` alone is what no greedy step can do without.
"""

import argparse
import time
from collections.abc import Callable

import torch

from headrace_engine.core.past import Past
from headrace_engine.core.plan import Row
from headrace_engine.core.sampling import Sampling, Steering
from headrace_engine.runner.next_tokens import next_tokens

GREEDY, FREE = Sampling(temperature=0), Sampling(temperature=0.8, seed=1)
ASKED = {
    "greedy": GREEDY,
    "temperature": FREE,
    "top_p 0.9": Sampling(temperature=0.8, seed=1, top_p=0.9),
    "min_p 0.05": Sampling(temperature=0.8, seed=1, min_p=0.05),
    "greedy, logprobs 0": Sampling(temperature=0, logprobs=0),
    "greedy, logprobs 20": Sampling(temperature=0, logprobs=20),
    "greedy, three penalties": Sampling(temperature=0, steering=Steering(1.2, 0.5, 0.5)),
    "greedy, 300 biases": Sampling(
        temperature=0, steering=Steering(logit_bias=tuple((each, 1.0) for each in range(300)))
    ),
}


def least_ms(work: Callable[[], object], repeats: int = 40) -> float:
    times = []
    for _ in range(repeats):
        began_s = time.thread_time()
        work()
        times.append(time.thread_time() - began_s)
    return 1000 * min(times)


def rows_of(sampling: Sampling, count: int, said: int) -> list[Row]:
    past = None
    if sampling.steering is not None:
        past = Past.of(range(said // 2))
        past.extend(range(said // 4, said // 4 + said // 2))
    return [Row(str(each), said, (7,), (0,), 1, sampling, past) for each in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("--vocabulary", 49_152), ("--rows", 32), ("--said", 1_000)):
        parser.add_argument(name, type=int, default=default)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    logits = 4 * torch.randn(asked.rows, asked.vocabulary)
    copied = least_ms(logits.clone)
    print(f"{'argmax alone':26} {least_ms(lambda: logits.argmax(-1).tolist()):7.2f} ms")
    for name, sampling in ASKED.items():
        rows = rows_of(sampling, asked.rows, asked.said)
        # What is steered is overwritten, so each step gets its own logits, as a model would make them.
        cost = least_ms(lambda rows=rows: next_tokens(logits.clone(), rows)) - copied
        print(f"{name:26} {cost:7.2f} ms")


if __name__ == "__main__":
    main()
