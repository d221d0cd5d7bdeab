"""A server under attack, in a process of its own, which tells how long its event loop stood still and how far
its memory grew.

The tokenizer is a real one and the bounds of a body are the largest there are; the model is arithmetic on a
paged cache, so that what is measured is the server. Run with the model's directory; prints its address, then
answers each line on standard input (`begin` or `end`) with a line of JSON.
"""

import asyncio
import json
import re
import sys
import threading
import time
from pathlib import Path

from headrace_engine.core.limits import Capacity
from headrace_engine.core.plan import Outcome, Plan, Row
from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.link.hosts import ThreadHost
from headrace_engine.runner.tokenizer import Tokenizer
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.http_server import address, listen
from headrace_engine.server.loading import starting_limits
from headrace_engine.server.model import LoadedModel
from headrace_engine.server.serve import EngineProcess

MAX_MODEL_LEN = 131_072
"""As long as the context of most models that have a long one. Bodies may have 8 MiB from half of it on."""
BLOCK_SIZE, NUM_BLOCKS, MAX_NUM_SEQS, STEP_TOKENS = 64, 4096, 8, 2048
VOCABULARY = 1024
STEP_S = 0.002
TICK_S = 0.005


class Arithmetic:
    """A model whose next token follows from the last one that its cache holds."""

    def __init__(self) -> None:
        self._cache = [0] * (NUM_BLOCKS * BLOCK_SIZE)

    def run(self, plan: Plan) -> Outcome:
        time.sleep(STEP_S)
        sampled = {row.request_id: [self._next(row)] for row in plan.rows if self._write(row)}
        scores = {
            row.request_id: [scored(row.sampling.logprobs)]
            for row in plan.rows
            if row.sampled_rows and row.sampling.logprobs is not None
        }
        of_prompts = {
            row.request_id: [scored(row.sampling.prompt_logprobs or 0) for _ in row.scoring.successors]
            for row in plan.rows
            if row.scoring is not None
        }
        return Outcome(sampled, STEP_S, scores, of_prompts)

    def _write(self, row: Row) -> int:
        for offset, token_id in enumerate(row.token_ids):
            self._cache[self._slot(row, row.start + offset)] = token_id
        return row.sampled_rows

    def _next(self, row: Row) -> int:
        last = self._cache[self._slot(row, row.start + len(row.token_ids) - 1)]
        return 33 + (last * 7 + 11) % 61

    @staticmethod
    def _slot(row: Row, position: int) -> int:
        return row.block_table[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE


def scored(num_top: int) -> TokenLogprobs:
    """The token is none of its alternatives."""
    return TokenLogprobs(
        -9.87654321, 99, tuple(range(40, 40 + num_top)), tuple(-0.123456789 - n for n in range(num_top))
    )


class Pulse:
    """The longest time between two ticks of an event loop.

    Of the time that passed and the processor time that this process used meanwhile the smaller one counts: on
    a busy machine the process may simply not have been let run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.longest_s = 0.0
        self._passed_s, self._used_s = time.monotonic(), time.process_time()

    def tick(self) -> None:
        passed_s, used_s = time.monotonic(), time.process_time()
        self.longest_s = max(self.longest_s, min(passed_s - self._passed_s, used_s - self._used_s))
        self._passed_s, self._used_s = passed_s, used_s
        self._loop.call_later(TICK_S, self.tick)


def memory_bytes(field: str) -> int:
    """`VmRSS` is what this process takes, `VmHWM` the most that it took since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(rf"{field}:\s+(\d+) kB", status)[0])


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def answer(pulse: Pulse) -> None:
    """One line for each that comes, until the other side is gone."""
    before = 0
    for line in sys.stdin:
        if line.strip() == "begin":
            forget_peak()
            before, pulse.longest_s = memory_bytes("VmRSS"), 0.0
        grown = max(0, memory_bytes("VmHWM") - before)
        print(json.dumps({"stall_s": pulse.longest_s, "grown_bytes": grown}), flush=True)


def load(directory: Path) -> LoadedModel:
    capacity = Capacity(MAX_NUM_SEQS, STEP_TOKENS, MAX_MODEL_LEN, NUM_BLOCKS, BLOCK_SIZE)
    tokenizer = Tokenizer.load(directory)
    return LoadedModel(
        runner=Arithmetic(),
        tokenizer=tokenizer,
        capacity=capacity,
        vocab_size=VOCABULARY,
        eos_token_ids=frozenset({0}),
        dtype="float32",
    )


async def serve(directory: Path) -> None:
    config = ServeConfig(model="target", max_num_seqs=MAX_NUM_SEQS, max_model_len=MAX_MODEL_LEN)
    sockets = listen("127.0.0.1", 0)
    pulse = Pulse(asyncio.get_running_loop())
    process = EngineProcess(
        *(config, starting_limits(config), ThreadHost(lambda: load(directory))),
        serving_socket=sockets,
        http_limits=HttpLimits(linger_s=0.1, header_timeout_s=3.0, body_timeout_s=4.0),
        on_ready=lambda _serving: print(address(sockets), flush=True),
    )
    pulse.tick()
    threading.Thread(target=answer, args=(pulse,), daemon=True).start()
    await process.run()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
