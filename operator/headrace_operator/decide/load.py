"""What the last interval says about load and latency, and what of it is over its target.

Latencies are at the quantile that the SLO's attainment asks for. What too few requests told is None.
"""

from dataclasses import dataclass

from headrace_operator.api.spec import Limits, Slo
from headrace_operator.decide.histogram import Histogram
from headrace_operator.decide.observation import Window
from headrace_operator.decide.slo import MIN_JUDGED, finished, queue_budget_s

BOUND_SHARE = 0.9
"""Of a limit in use, from which on it binds."""
SATURATED_STEPS_SHARE = 0.3
"""Share of steps with a used-up budget, from which on the budget binds."""
PREFILL_TOKENS_PER_STEP = 0.5
"""Below it, steps are decodes in all but name and their budget does not make them long."""


@dataclass(frozen=True, slots=True)
class Load:
    """One interval, all pods together unless the name says otherwise."""

    slo: Slo
    limits: Limits
    quantile: float
    queue_s: float | None
    ttft_s: float | None
    itl_s: float | None
    e2e_s: float | None
    oldest_waiting_age_s: float | None
    waiting: float | None
    running_per_pod: float | None
    running_peak: float | None
    arrivals_per_s: float | None
    tokens_per_s: float | None
    finished: int | None
    finished_per_s: float | None
    shed_ratio: float | None
    """Refused requests in those that arrived."""
    kv_used_ratio: float | None
    budget_used_ratio: float | None
    """Of a step's token budget, in the mean."""
    budget_peak_ratio: float | None
    """Of the steps that make the worst tokens late."""
    budget_saturated_share: float | None
    prefill_tokens_per_step: float | None
    attainment_ratio: float | None
    step_p95_s: float | None = None
    """Duration of a step; for people, no rule goes by it."""

    @property
    def queue_budget_s(self) -> float:
        return queue_budget_s(self.slo)

    @property
    def queue_is_over(self) -> bool:
        """Requests wait too long, or so many do that they are refused."""
        waits = (self.queue_s, self.oldest_waiting_age_s)
        sheds = self.shed_ratio is not None and self.shed_ratio > 1 - self.slo.attainment_ratio
        return sheds or any(wait is not None and wait > self.queue_budget_s for wait in waits)

    @property
    def ttft_is_over(self) -> bool:
        return self.ttft_s is not None and self.slo.ttft_s is not None and self.ttft_s > self.slo.ttft_s

    @property
    def itl_is_over(self) -> bool:
        return self.itl_s is not None and self.slo.itl_s is not None and self.itl_s > self.slo.itl_s

    @property
    def e2e_is_over(self) -> bool:
        return self.e2e_s is not None and self.slo.e2e_s is not None and self.e2e_s > self.slo.e2e_s

    @property
    def is_over(self) -> bool:
        return self.queue_is_over or self.ttft_is_over or self.itl_is_over or self.e2e_is_over

    @property
    def seqs_bind(self) -> bool:
        """Pods run as many requests as they may: nearly always, or at times while others wait."""
        limit, running, peak = self.limits.max_num_seqs, self.running_per_pod, self.running_peak
        is_full = running is not None and running >= BOUND_SHARE * limit
        return is_full or (peak is not None and peak >= limit and bool(self.waiting))

    @property
    def budget_binds(self) -> bool:
        """Steps use up their token budget."""
        share = self.budget_saturated_share
        return share is not None and share >= SATURATED_STEPS_SHARE

    @property
    def carries_prefill(self) -> bool:
        per_step = self.prefill_tokens_per_step
        return per_step is not None and per_step >= PREFILL_TOKENS_PER_STEP


def measure(window: Window, *, slo: Slo, limits: Limits, attainment_ratio: float | None) -> Load:
    """The load of one window."""
    q = slo.attainment_ratio
    budget = window.step_budget_used_ratio
    below = None if budget is None else budget.share_at_most(BOUND_SHARE)
    return Load(
        slo=slo,
        limits=limits,
        quantile=q,
        queue_s=_quantile(window.queue_time_s, q),
        ttft_s=_quantile(window.ttft_s, q),
        itl_s=_quantile(window.itl_s, q),
        e2e_s=_quantile(window.e2e_s, q),
        oldest_waiting_age_s=window.oldest_waiting_age_s,
        waiting=window.waiting,
        running_per_pod=window.running_per_pod,
        running_peak=window.running_peak,
        arrivals_per_s=_per_second(window, window.arrivals),
        tokens_per_s=_per_second(window, _sum(window.prompt_tokens, window.generation_tokens)),
        finished=finished(window),
        finished_per_s=_per_second(window, finished(window)),
        shed_ratio=_ratio(window.rejections, window.arrivals),
        kv_used_ratio=window.kv_used_ratio,
        budget_used_ratio=None if budget is None else budget.mean,
        budget_peak_ratio=None if budget is None else budget.quantile(q),
        budget_saturated_share=None if below is None else 1 - below,
        prefill_tokens_per_step=_ratio(window.prompt_tokens, window.steps),
        attainment_ratio=attainment_ratio,
        step_p95_s=None if window.step_work is None else window.step_work.duration_p95_s,
    )


def _quantile(histogram: Histogram | None, q: float) -> float | None:
    return histogram.quantile(q) if histogram is not None and histogram.total >= MIN_JUDGED else None


def _per_second(window: Window, count: int | None) -> float | None:
    return count / window.span_s if count is not None and window.span_s > 0 else None


def _ratio(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _sum(one: int | None, other: int | None) -> int | None:
    return one + other if one is not None and other is not None else None
