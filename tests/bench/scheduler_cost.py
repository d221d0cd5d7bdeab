"""What the scheduler costs: microseconds per scheduled sequence, and how that grows with the queue.

    python tests/bench/scheduler_cost.py

Every running sequence decodes, the case with the most bookkeeping per token. In the second table one sequence
in sixteen ends in every step and another is admitted, so that the policies have something to decide. Times
are CPU times of the thread, the best of several rounds, so that a busy machine disturbs them little.
"""

import platform
import statistics
import time

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Outcome
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.priority import WORST_PRIORITY
from headrace_engine.core.request import Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.core.tenants import Tenants

NUM_RUNNING = 256
QUEUES = (0, 1_000, 10_000, 100_000)
ROUNDS, STEPS_A_ROUND, REPEATS = 5, 20, 5
BLOCK_SIZE, PROMPT_TOKENS, STEP_S = 16, 24, 0.025
STOP_ID = 0


class Load:
    """A scheduler with full slots and a queue of requests of some tenants and classes behind them."""

    def __init__(
        self,
        policy: PolicyName,
        num_waiting: int,
        *,
        num_running: int = NUM_RUNNING,
        num_classes: int = 3,
        num_tenants: int = 50,
        num_shares: int = 0,
    ) -> None:
        self._num_classes, self._num_tenants = num_classes, num_tenants
        shares = {f"tenant-{number}": Terms(min_share=0.5 / num_shares) for number in range(num_shares)}
        tenants, rate = Tenants(Contract(shares)), PrefillRate()
        self.scheduler = Scheduler(
            capacity=Capacity(num_running, 8192, 4096, num_running * 300, BLOCK_SIZE),
            limits=Limits(num_running, 8192, max_num_queued_reqs=10**6, max_num_queued_tokens=10**9),
            policy=policy_of(policy, tenants, rate, age_s=1e6),
            tenants=tenants,
            prefill_rate=rate,
        )
        self.num_requests = 0
        for _ in range(num_running + num_waiting):
            self.submit()
        self.run(4)

    def submit(self) -> None:
        number = self.num_requests
        request = Request(
            f"r{number}",
            tuple(range(number, number + PROMPT_TOKENS)),
            4000,
            0.0,
            stop_token_ids=frozenset([STOP_ID]),
            priority=number % self._num_classes,
            tenant=f"tenant-{number % self._num_tenants}",
            queue_deadline_s=1e6,
            first_token_deadline_s=1e5 + number % 97,
        )
        self.num_requests += 1
        assert self.scheduler.submit(request, 0.0) is None

    def run(self, steps: int, end_one_in: int = 0) -> float:
        """Seconds of scheduling per scheduled sequence."""
        spent_s, sequences = 0.0, 0
        for number in range(steps):
            now_s = STEP_S * number
            started_s = time.thread_time()
            self.scheduler.expire(now_s)
            plan = self.scheduler.schedule(now_s)
            planned_s = time.thread_time()
            sampled = {
                row.request_id: [STOP_ID if end_one_in and index % end_one_in == number % end_one_in else 7]
                for index, row in enumerate(plan.rows)
            }
            outcome = Outcome(sampled, STEP_S)
            computed_s = time.thread_time()
            self.scheduler.commit(plan, outcome, now_s)
            spent_s += (planned_s - started_s) + (time.thread_time() - computed_s)
            sequences += len(plan.rows)
            for _ in range(len(plan.rows) // end_one_in if end_one_in else 0):
                self.submit()
        return spent_s / sequences

    def cost_us(self, end_one_in: int = 0) -> float:
        return 1e6 * min(self.run(STEPS_A_ROUND, end_one_in) for _ in range(ROUNDS))


def turnover(name: str, policy: PolicyName, **crowd: int) -> None:
    """A row of the second table. A pair of loads is measured in turns, so that both see the same machine."""
    loads = [Load(policy, count, **crowd) for count in (1_000, 10_000)]
    pairs = [[load.cost_us(end_one_in=16) for load in loads] for _ in range(REPEATS)]
    ratios = [long / short for short, long in pairs]
    costs = " | ".join(f"{statistics.median(costs):.1f}" for costs in zip(*pairs, strict=True))
    spread = f"{statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f}"
    print(f"| {name} | {costs} | {spread} |", flush=True)


def main() -> None:
    machine = platform.processor() or platform.machine()
    print(
        f"{machine}, Python {platform.python_version()}, {NUM_RUNNING} running; us per scheduled sequence\n"
    )
    print("\n| all decode, waiting: | " + " | ".join(f"{count:,}" for count in QUEUES) + " |")
    print("|---" * (1 + len(QUEUES)) + "|")
    costs = [Load(PolicyName.FCFS, count).cost_us() for count in QUEUES]
    print("| `fcfs` | " + " | ".join(f"{cost:.1f}" for cost in costs) + " |", flush=True)
    print("\n| one in 16 ends in every step, waiting: | 1,000 | 10,000 | ratio | from, to |")
    print("|---" * 5 + "|")
    for policy in PolicyName:
        turnover(f"`{policy}`", policy)
    turnover("`fair`, 5,000 tenants", PolicyName.FAIR, num_tenants=5_000)
    turnover("`slo`, 20 classes", PolicyName.SLO, num_classes=1 + WORST_PRIORITY)
    for num_shares in (10, 250):
        turnover(
            *(f"`slo`, 500 tenants, {num_shares} with a share", PolicyName.SLO),
            num_tenants=500,
            num_shares=num_shares,
        )
    step_us = 64 * Load(PolicyName.FCFS, 0, num_running=64).cost_us()
    speed = 1e6 * STEP_S / step_us
    print(
        f"\n64 decoding: {step_us:.0f} us a step, {speed:.0f} times real time at {1e3 * STEP_S:.0f} ms a step"
    )


if __name__ == "__main__":
    main()
