"""What the scheduler costs: microseconds per scheduled sequence, and how that grows with the queue.

    python tests/bench/scheduler_cost.py

Every running sequence decodes, the case with the most bookkeeping per token. Times are CPU times of the
thread, the best of several rounds, so that a busy machine disturbs them little.
"""

import platform
import time

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Outcome
from headrace_engine.core.request import Request
from headrace_engine.core.scheduler import Scheduler

NUM_RUNNING = 256
QUEUES = (0, 100, 1_000, 10_000, 100_000)
ROUNDS, STEPS_A_ROUND = 7, 40
PROMPT_TOKENS, BLOCK_SIZE = 24, 16
STEP_S = 0.025


def loaded(num_waiting: int, num_running: int = NUM_RUNNING) -> Scheduler:
    """A scheduler with full slots, all of them decoding, and `num_waiting` requests behind them."""
    capacity = Capacity(num_running, 8192, 4096, num_running * 256, BLOCK_SIZE)
    limits = Limits(num_running, 8192, max_num_queued_reqs=10**6, max_num_queued_tokens=10**9)
    scheduler = Scheduler(capacity=capacity, limits=limits)
    for number in range(num_running + num_waiting):
        prompt = tuple(range(number, number + PROMPT_TOKENS))
        rejection = scheduler.submit(Request(f"r{number}", prompt, 4000, 0.0, queue_deadline_s=1e6), 0.0)
        assert rejection is None
    steps(scheduler, 4)
    return scheduler


def steps(scheduler: Scheduler, count: int) -> float:
    """Run `count` steps; the seconds of scheduling per scheduled sequence."""
    spent_s, sequences = 0.0, 0
    for number in range(count):
        now_s = STEP_S * number
        started_s = time.thread_time()
        scheduler.expire(now_s)
        plan = scheduler.schedule(now_s)
        planned_s = time.thread_time()
        outcome = Outcome({row.request_id: [7] for row in plan.rows if row.sampled_rows}, STEP_S)
        computed_s = time.thread_time()
        scheduler.commit(plan, outcome, now_s)
        spent_s += (planned_s - started_s) + (time.thread_time() - computed_s)
        sequences += len(plan.rows)
    return spent_s / sequences


def main() -> None:
    machine = platform.processor() or platform.machine()
    print(f"{machine}, Python {platform.python_version()}, {NUM_RUNNING} running")
    costs_us = {}
    for num_waiting in QUEUES:
        scheduler = loaded(num_waiting)
        costs_us[num_waiting] = 1e6 * min(steps(scheduler, STEPS_A_ROUND) for _ in range(ROUNDS))
        print(f"{num_waiting:>8,} waiting  {costs_us[num_waiting]:6.2f} us per scheduled sequence")
    print(
        f"ten times the queue (1,000 to 10,000) costs {costs_us[10_000] / costs_us[1_000]:.2f} times as much"
    )
    small = loaded(0, num_running=64)
    step_s = 64 * min(steps(small, STEPS_A_ROUND) for _ in range(ROUNDS))
    speed = STEP_S / step_s
    print(f"64 decoding: {1e6 * step_s:.0f} us a step, {speed:.0f} times real time at {1e3 * STEP_S:.0f} ms")


if __name__ == "__main__":
    main()
