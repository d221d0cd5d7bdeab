"""Numbers as people read them, for messages and for the inputs of a decision."""

from headrace_operator.api.spec import Limits
from headrace_operator.api.units import decimal_text, duration_text
from headrace_operator.api.vocabulary import Reason
from headrace_operator.decide.decision import Input
from headrace_operator.decide.load import Load


def quantile_name(load: Load) -> str:
    """`p95` where the SLO asks for an attainment of 0.95."""
    return f"p{100 * load.quantile:g}"


def queue_text(load: Load) -> str:
    """How long requests wait, against the budget."""
    if load.queue_s is not None and load.queue_s > load.queue_budget_s:
        wait = f"queue {quantile_name(load)} {duration_text(load.queue_s)}"
    elif load.oldest_waiting_age_s is not None and load.oldest_waiting_age_s > load.queue_budget_s:
        wait = f"a request waits {duration_text(load.oldest_waiting_age_s)}"
    elif load.shed_ratio is not None and load.queue_is_over:
        return f"{decimal_text(100 * load.shed_ratio, 0)}% of the requests refused"
    elif load.queue_s is None:
        return f"queue {quantile_name(load)} unknown, budget {duration_text(load.queue_budget_s)}"
    else:
        wait = f"queue {quantile_name(load)} {duration_text(load.queue_s)}"
    sign = ">" if load.queue_is_over else "of"
    return f"{wait} {sign} {duration_text(load.queue_budget_s)} budget"


def itl_text(load: Load) -> str:
    """The time between tokens, against its target."""
    return _against(f"itl {quantile_name(load)}", load.itl_s, load.slo.itl_s)


def ttft_text(load: Load) -> str:
    """The time to the first token, against its target."""
    return _against(f"ttft {quantile_name(load)}", load.ttft_s, load.slo.ttft_s)


def e2e_text(load: Load) -> str:
    """The time to the last token, against its target."""
    return _against(f"e2e {quantile_name(load)}", load.e2e_s, load.slo.e2e_s)


def latencies_text(load: Load) -> str:
    """What is judged, against its targets; where no request was timed, that."""
    if load.queue_s is None and load.ttft_s is None and load.itl_s is None and not load.is_over:
        return f"no latency to judge by; {use_text(load)}"
    return f"{queue_text(load)}; {ttft_text(load)}; {itl_text(load)}"


def missed_reason(load: Load) -> Reason:
    """The target that is missed, the queue first: it is what capacity can help."""
    if load.queue_is_over:
        return Reason.QUEUE_TIME_OVER_BUDGET
    if load.ttft_is_over:
        return Reason.TTFT_OVER_TARGET
    return Reason.ITL_OVER_TARGET if load.itl_is_over else Reason.E2E_OVER_TARGET


def missed_text(load: Load) -> str:
    """That target, with its numbers."""
    if load.queue_is_over:
        return queue_text(load)
    if load.ttft_is_over:
        return ttft_text(load)
    return itl_text(load) if load.itl_is_over else e2e_text(load)


def use_text(load: Load) -> str:
    """How much of the limits is in use."""
    running = "?" if load.running_per_pod is None else decimal_text(load.running_per_pod, 1)
    text = f"{running} of {load.limits.max_num_seqs} sequences run per pod"
    if load.budget_saturated_share is not None:
        text += f", {decimal_text(100 * load.budget_saturated_share, 0)}% of steps use up the token budget"
    if load.kv_used_ratio is not None:
        text += f", KV {decimal_text(100 * load.kv_used_ratio, 0)}%"
    return text


def limits_text(limits: Limits) -> str:
    return f"{limits.max_num_seqs}/{limits.max_num_batched_tokens}"


def inputs(load: Load) -> tuple[Input, ...]:
    """What was measured, for the status."""
    name = quantile_name(load).upper()
    rows = (
        (f"queueTime{name}", _seconds(load.queue_s), duration_text(load.queue_budget_s)),
        (f"ttft{name}", _seconds(load.ttft_s), _seconds(load.slo.ttft_s)),
        (f"itl{name}", _seconds(load.itl_s), _seconds(load.slo.itl_s)),
        (f"e2e{name}", _seconds(load.e2e_s), _seconds(load.slo.e2e_s)),
        ("runningPerPod", _decimal(load.running_per_pod, 1), str(load.limits.max_num_seqs)),
        ("waiting", _decimal(load.waiting, 1), None),
        ("stepsUsingUpBudget", _decimal(load.budget_saturated_share, 2), None),
        ("stepTimeP95", _seconds(load.step_p95_s), None),
        ("kvUsage", _decimal(load.kv_used_ratio, 2), None),
        ("requestsPerSecond", _decimal(load.arrivals_per_s, 2), None),
        ("tokensPerSecond", _decimal(load.tokens_per_s, 1), None),
        ("refused", _decimal(load.shed_ratio, 2), None),
        ("attainment", _decimal(load.attainment_ratio, 3), f"{load.slo.attainment_ratio:g}"),
    )
    return tuple(Input(name, value, target) for name, value, target in rows if value is not None)


def _against(name: str, value_s: float | None, target_s: float | None) -> str:
    if value_s is None:
        return f"{name} unknown"
    if target_s is None:
        return f"{name} {duration_text(value_s)}, no target"
    return f"{name} {duration_text(value_s)} {'>' if value_s > target_s else 'of'} {duration_text(target_s)}"


def _seconds(value_s: float | None) -> str | None:
    return None if value_s is None else duration_text(value_s)


def _decimal(value: float | None, digits: int) -> str | None:
    return None if value is None else decimal_text(value, digits)
