"""The scenarios that the scheduler's claims are made about, for a step model and for a real model alike.

Times are in units of one step of the idle engine, so that a fast model is pressed as hard as a slow one.
"""

from scheduler_drive import Arrival, Compute, Drive, new_scheduler, quantile

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.step_model import StepModel

CAPACITY = Capacity(
    max_num_seqs=32, max_num_batched_tokens=2048, max_model_len=2048, num_blocks=2048, block_size=16
)
STREAMS, STREAM_TOKENS, LONG_PROMPT = 8, 100, 384


def limits(**changes: int) -> Limits:
    """The widest, with a queue that refuses nobody, but for `changes`."""
    queue = {"max_num_queued_reqs": 10**6, "max_num_queued_tokens": 10**9}
    return Limits.of(CAPACITY).changed(queue | changes, CAPACITY)


def stream_itl_s(
    compute: Compute,
    step_s: float,
    *,
    bursts: bool = True,
    static: bool = False,
    step_model: StepModel | None = None,
    stream_tokens: int = STREAM_TOKENS,
    **changes: int,
) -> tuple[float, float | None]:
    """The p95 ITL of running streams while long prompts come, and the p95 TTFT of those prompts."""
    arrivals = [Arrival(0.0, "streams", 16, stream_tokens) for _ in range(STREAMS)]
    if bursts:
        gap_s = 22 * step_s
        arrivals += [Arrival(20 * step_s + gap_s * n, "bursts", LONG_PROMPT, 1) for n in range(60)]
    scheduler = new_scheduler(CAPACITY, limits(**changes), step_model=step_model, static_batches=static)
    drive = Drive(scheduler, compute, arrivals)
    while len(drive.seen["streams"].itl_s) < STREAMS * (stream_tokens - 1):
        drive.step()
    itl_s = quantile(drive.seen["streams"].itl_s, 0.95)
    while bursts and not drive.seen["bursts"].ttft_s:
        drive.step()
    return itl_s, quantile(drive.seen["bursts"].ttft_s, 0.95) if bursts else None


def lowered_and_raised(compute: Compute) -> tuple[Drive, list[int], list[int]]:
    """Sixty-four requests while `max_num_seqs` goes from 32 to 4 and back.

    Returns the ended drive, how many were admitted in each step under the lowered limit while more ran than
    it says, and how many ran in the two steps after it was raised.
    """
    arrivals = [Arrival(0.0, "all", 16, 10 + number) for number in range(64)]
    drive = Drive(new_scheduler(CAPACITY, limits()), compute, arrivals)
    scheduler = drive.scheduler
    drive.step()
    scheduler.set_limits(limits(max_num_seqs=4))
    admitted = []
    while (before := scheduler.snapshot(0.0)).num_running > 4:
        drive.step()
        admitted.append(before.num_newcomers - scheduler.snapshot(0.0).num_newcomers)
    scheduler.set_limits(limits(max_num_seqs=32))
    rows = [len(drive.step().rows) for _ in range(2)]
    return drive.run(), admitted, rows
