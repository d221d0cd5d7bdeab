"""What a load came to: pure arithmetic over its records, by the definitions of `vllm bench serve`.

TTFT is first token minus send, ITL the gap between successive chunks, TPOT (E2EL - TTFT) / (output tokens -
1). A request is good when it ended well and met every objective that was given. Where vLLM's definition
flatters, this one says so: a one-token answer has no TPOT, so it is left out of TPOT, judged by TTFT and E2EL
alone, and counted in `one_token`; refused, broken and failed requests stay in the denominator of
`attainment_ratio`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from statistics import fmean

from headrace_bench.record import Outcome, Record


@dataclass(frozen=True, slots=True)
class Objectives:
    """What each request should meet; `itl_s` is for the mean of a request's gaps."""

    ttft_s: float | None = None
    itl_s: float | None = None
    e2el_s: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is anything to meet."""
        return (self.ttft_s, self.itl_s, self.e2el_s) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One latency over all requests that have it, in seconds."""

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The report of one load; what has no sample is None."""

    duration_s: float
    requests: int
    ok: int
    rejected: int
    broken: int
    failed: int
    retries: int
    prompt_tokens: int
    output_tokens: int
    unknown_usage: int
    """Good streams without a usage chunk: their tokens are in no count."""
    one_token: int
    request_throughput_per_s: float | None
    output_throughput_tokens_per_s: float | None
    total_throughput_tokens_per_s: float | None
    good: int | None
    goodput_per_s: float | None
    attainment_ratio: float | None
    ttft: Distribution | None
    tpot: Distribution | None
    itl: Distribution | None
    e2el: Distribution | None
    send_lag_max_s: float | None
    """How late the client itself was: far above zero means that it, not the server, was measured."""


def summarize(records: Sequence[Record], duration_s: float, objectives: Objectives | None = None) -> Summary:
    """The report over `records` that took `duration_s` from first send to last end."""
    outcomes = Counter(record.outcome for record in records)
    ok = [record for record in records if record.outcome is Outcome.OK]
    prompt_tokens = sum(record.prompt_tokens or 0 for record in ok)
    output_tokens = sum(record.output_tokens or 0 for record in ok)
    judged = objectives is not None and objectives.given
    good = sum(is_good(record, objectives) for record in records) if objectives and judged else None
    return Summary(
        duration_s=duration_s,
        requests=len(records),
        ok=len(ok),
        rejected=outcomes[Outcome.REJECTED],
        broken=outcomes[Outcome.BROKEN],
        failed=outcomes[Outcome.FAILED],
        retries=sum(record.attempts - 1 for record in records),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        unknown_usage=sum(record.output_tokens is None for record in ok),
        one_token=sum(record.output_tokens == 1 for record in ok),
        request_throughput_per_s=_rate(len(ok), duration_s),
        output_throughput_tokens_per_s=_rate(output_tokens, duration_s),
        total_throughput_tokens_per_s=_rate(prompt_tokens + output_tokens, duration_s),
        good=good,
        goodput_per_s=None if good is None else _rate(good, duration_s),
        attainment_ratio=good / len(records) if good is not None and records else None,
        ttft=distribution([record.ttft_s for record in ok]),
        tpot=distribution([record.tpot_s for record in ok]),
        itl=distribution([gap for record in ok for gap in record.itls_s]),
        e2el=distribution([record.e2el_s for record in ok]),
        send_lag_max_s=max((record.sent_s - record.due_s for record in records), default=None),
    )


def is_good(record: Record, objectives: Objectives) -> bool:
    """Whether the request ended well and met every objective."""
    if record.outcome is not Outcome.OK:
        return False
    pairs = (
        (record.ttft_s, objectives.ttft_s),
        (record.itl_mean_s, objectives.itl_s),
        (record.e2el_s, objectives.e2el_s),
    )
    return all(target is None or seen is None or seen <= target for seen, target in pairs)


def distribution(samples: Sequence[float | None]) -> Distribution | None:
    """The distribution of the samples that are there; None when there is none."""
    ordered = sorted(sample for sample in samples if sample is not None)
    if not ordered:
        return None
    p50, p90, p95, p99 = (percentile(ordered, percent) for percent in (50, 90, 95, 99))
    return Distribution(len(ordered), fmean(ordered), p50, p90, p95, p99, ordered[-1])


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Linear interpolation between the two nearest ranks of a sorted, non-empty sequence."""
    rank = (len(ordered) - 1) * percent / 100
    low, high = floor(rank), ceil(rank)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def _rate(count: int, duration_s: float) -> float | None:
    return count / duration_s if duration_s > 0 else None
