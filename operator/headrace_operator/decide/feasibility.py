"""Whether a target can be met at all: a request that runs nearly alone tells, and no replica helps it.

Under load nothing can be told, so what was told last stands until the targets change.
"""

from headrace_operator.api.spec import Slo
from headrace_operator.api.status import Previous
from headrace_operator.api.vocabulary import ConditionType, Reason
from headrace_operator.decide.explain import missed_reason, missed_text
from headrace_operator.decide.health import Finding
from headrace_operator.decide.load import Load
from headrace_operator.decide.slo import slo_targets

ALONE = 1.5
"""Requests running per pod, up to which latency is the model's own and no replica shortens it."""
_INFEASIBLE = {
    Reason.TTFT_OVER_TARGET: "InfeasibleTTFT",
    Reason.ITL_OVER_TARGET: "InfeasibleITL",
    Reason.E2E_OVER_TARGET: "InfeasibleE2E",
}


def is_infeasible(load: Load) -> bool:
    """A request that runs nearly alone and did not wait misses its target all the same."""
    return _runs_alone(load) and not load.queue_is_over and load.is_over


def slo_feasible(slo: Slo, load: Load | None, previous: Previous) -> Finding:
    """Condition SLOFeasible."""
    kind = ConditionType.SLO_FEASIBLE
    if load is not None and is_infeasible(load):
        message = f"a request alone misses its target: {missed_text(load)}; no replica makes it faster"
        return Finding(kind, "False", _INFEASIBLE[missed_reason(load)], message)
    is_measured = load is not None and (load.ttft_s, load.itl_s, load.e2e_s) != (None, None, None)
    if load is not None and is_measured and _runs_alone(load) and not load.is_over:
        return Finding(kind, "True", "Feasible", "a request alone meets its targets")
    known = next((found for found in previous.conditions if found.type == kind), None)
    if known is None or previous.slo_targets != slo_targets(slo):
        return Finding(kind, "Unknown", Reason.INSUFFICIENT_DATA, "no request has run alone yet")
    return Finding(kind, known.status, known.reason, known.message)


def _runs_alone(load: Load) -> bool:
    return load.running_per_pod is not None and load.running_per_pod <= ALONE
