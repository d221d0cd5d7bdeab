"""The SLO held against a window: budgets, the share of good requests, the target that binds."""

from dataclasses import fields

from headrace_operator.api.spec import ServiceSpec, Slo
from headrace_operator.decide.histogram import Histogram
from headrace_operator.decide.observation import Observation, Window

QUEUE_SHARE = 0.5
"""Of the TTFT target, or of the queue deadline, that waiting may use up; prefill needs the rest."""
QUEUE_BUDGET_DEFAULT_S = 5.0
"""Where neither is declared: a request that waits longer is what people call a hanging service."""
MIN_JUDGED = 5
"""Fewer finished requests than these say nothing about a share."""


def queue_budget_s(slo: Slo) -> float:
    """How long a request may wait for its first scheduling."""
    declared = [target_s for target_s in (slo.ttft_s, slo.queue_deadline_s) if target_s is not None]
    return min(declared) * QUEUE_SHARE if declared else QUEUE_BUDGET_DEFAULT_S


def slo_key(slo: Slo) -> str:
    """Names the targets that engines count by; under another key their counts mean other targets."""
    return f"ttft={_text(slo.ttft_s)},itl={_text(slo.itl_s)}"[:32]


def slo_targets(slo: Slo) -> str:
    """Names the whole SLO: another text for any other SLO. What was told of one is void for another."""
    return ",".join(f"{field.name}={_text(getattr(slo, field.name))}" for field in fields(slo))


def counts_are_current(observation: Observation, spec: ServiceSpec) -> bool:
    """Whether every pod started under today's targets, so that what it counts as good is good today."""
    since_s = observation.previous.slo_since_s
    if since_s is None or observation.previous.slo_key != slo_key(spec.slo):
        return False
    return all(pod.created_s >= since_s for pod in observation.pods if pod.ready)


def attainment_ratio(window: Window, slo: Slo, *, counts_current: bool) -> float | None:
    """The share of finished requests that met every target; refused and failed ones did not.

    By the engines' own counts where these are about today's targets, which they know but for `e2e`. Else by
    the histograms: the share of the worst target, which the joint share cannot exceed.
    """
    in_time = _share(window.e2e_s, slo.e2e_s)
    if counts_current and window.good is not None:
        bad = (window.late or 0) + (window.failed or 0) + (window.rejections or 0)
        finished = window.good + bad
        good = window.good / finished if finished >= MIN_JUDGED else None
        return good if good is None or in_time is None else min(good, in_time)
    known = (_share(window.ttft_s, slo.ttft_s), _share(window.itl_s, slo.itl_s), in_time)
    shares = [share for share in known if share is not None]
    return min(shares) if shares else None


def _share(histogram: Histogram | None, target_s: float | None) -> float | None:
    """Of what was observed, that met the target; None where there is no target or too little was."""
    if histogram is None or target_s is None or histogram.total < MIN_JUDGED:
        return None
    return histogram.share_at_most(target_s)


def finished(window: Window) -> int | None:
    """Requests that ended in the window, however."""
    counts = [count for count in (window.good, window.late, window.failed) if count is not None]
    return sum(counts) if counts else None


def binding_target(
    slo: Slo, *, ttft_s: float | None, itl_s: float | None, e2e_s: float | None, queue_s: float | None
) -> str | None:
    """The target that is nearest to being missed, or furthest missed."""
    measured = {
        "ttft": (ttft_s, slo.ttft_s),
        "itl": (itl_s, slo.itl_s),
        "e2e": (e2e_s, slo.e2e_s),
        "queue": (queue_s, slo.queue_deadline_s),
    }
    ratios = {
        name: value / target
        for name, (value, target) in measured.items()
        if value is not None and target is not None
    }
    return max(ratios, key=lambda name: ratios[name]) if ratios else None


def _text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:g}"
