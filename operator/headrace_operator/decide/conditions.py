"""The conditions of the metrics, the SLO and the two controllers; and the one rule of their times.

`lastTransitionTime` moves where `status` flips, and only there.
"""

from collections.abc import Iterable

from headrace_operator.api.spec import ScalingMode, ServiceSpec, TuningMode
from headrace_operator.api.status import Condition, Previous
from headrace_operator.api.vocabulary import ConditionType, Reason
from headrace_operator.decide.conflict import Conflict
from headrace_operator.decide.health import Finding
from headrace_operator.decide.modes import Mandate
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.rules import PAUSED
from headrace_operator.decide.trust import Blindness
from headrace_operator.runtimes.registry import adapter

POD_REPORTS_IMPLAUSIBLE = "PodReportsImplausible"
_METRICS_BLINDNESS = frozenset({Reason.METRICS_STALE, Reason.INSUFFICIENT_DATA})


def timed(found: Iterable[Finding], previous: Previous, *, now_s: float) -> tuple[Condition, ...]:
    """Findings as conditions, each with the time of its last flip."""
    known = {condition.type: condition for condition in previous.conditions}
    order = list(ConditionType)
    return tuple(
        Condition(
            finding.type,
            finding.status,
            finding.reason,
            finding.message,
            since_s=(
                known[finding.type].since_s
                if finding.type in known and known[finding.type].status == finding.status
                else now_s
            ),
        )
        for finding in sorted(found, key=lambda finding: order.index(finding.type))
    )


def metrics_available(observation: Observation, blindness: Blindness | None) -> Finding:
    """Whether there is something to go by."""
    kind, recent = ConditionType.METRICS_AVAILABLE, observation.recent
    if blindness is not None and blindness.reason is Reason.METRICS_STALE:
        return Finding(kind, "False", "MetricsStale", blindness.message)
    if blindness is not None and blindness.missing is not None:
        return Finding(kind, "False", "MetricsMissing", blindness.message)
    if not any(pod.ready for pod in observation.pods):
        return Finding(kind, "Unknown", Reason.INSUFFICIENT_DATA, "no pod is ready")
    reports = recent or observation.window
    if reports is None:
        return Finding(kind, "Unknown", Reason.INSUFFICIENT_DATA, "no pod has been scraped yet")
    counts = f"{reports.pods_reporting} of {reports.pods_expected} ready pods report"
    doubted = [pod.name for pod in observation.pods if pod.scrape is not None and pod.scrape.is_implausible]
    if doubted:
        message = f"{counts}; values that no engine can have are left out of: {', '.join(doubted)}"
        return Finding(kind, "True", POD_REPORTS_IMPLAUSIBLE, message)
    is_whole = reports.pods_reporting >= reports.pods_expected
    return Finding(kind, "True", "MetricsFound" if is_whole else "Degraded", counts)


def slo_met(spec: ServiceSpec, attainment_ratio: float | None) -> Finding:
    """Whether enough requests of the last window were good."""
    kind, target = ConditionType.SLO_MET, spec.slo.attainment_ratio
    if attainment_ratio is None:
        return Finding(kind, "Unknown", Reason.INSUFFICIENT_DATA, "too few requests to tell")
    message = f"{attainment_ratio:.3f} of the requests met every target, {target:g} are asked for"
    if attainment_ratio >= target:
        return Finding(kind, "True", "AttainmentReached", message)
    return Finding(kind, "False", "AttainmentMissed", message)


def controllers_active(
    spec: ServiceSpec, mandate: Mandate, blindness: Blindness | None, rival: Conflict | None
) -> tuple[Finding, Finding]:
    """Whether replicas and limits are being moved, and why not."""
    scaling = _controller(
        ConditionType.SCALING_ACTIVE,
        spec,
        blindness,
        is_allowed=mandate.allowed.replicas,
        off=_scaling_off(spec, rival),
    )
    tuning = _controller(
        ConditionType.TUNING_ACTIVE,
        spec,
        blindness,
        is_allowed=mandate.allowed.limits,
        off=_tuning_off(spec),
    )
    return scaling, tuning


def _controller(
    kind: ConditionType,
    spec: ServiceSpec,
    blindness: Blindness | None,
    *,
    is_allowed: bool,
    off: tuple[str, str],
) -> Finding:
    if not is_allowed:
        return Finding(kind, "False", *off)
    if spec.paused:
        return Finding(kind, "False", Reason.PAUSED, PAUSED)
    if blindness is not None and blindness.reason in _METRICS_BLINDNESS:
        return Finding(kind, "False", blindness.reason, blindness.message)
    return Finding(kind, "True", "Auto", "decided on every interval")


def _scaling_off(spec: ServiceSpec, rival: Conflict | None) -> tuple[str, str]:
    if rival is not None and rival.stops_scaling:
        return Reason.CONFLICT, rival.message
    if spec.replicas is not None:
        return Reason.PINNED_BY_USER, f"spec.replicas pins {spec.replicas}"
    if spec.scaling.mode is ScalingMode.RECOMMEND:
        return "RecommendOnly", "scaling.mode is Recommend"
    return Reason.FIXED_BY_SPEC, f"scaling.mode is {spec.scaling.mode}"


def _tuning_off(spec: ServiceSpec) -> tuple[str, str]:
    if spec.tuning.mode is TuningMode.OFF:
        return Reason.FIXED_BY_SPEC, "tuning.mode is Off"
    if spec.tuning.mode is TuningMode.RECOMMEND:
        return "RecommendOnly", "tuning.mode is Recommend"
    if not adapter(spec.engine.runtime).changes_limits_live:
        message = (
            f"{spec.engine.runtime} takes its limits when it starts: status.recommendation says what to set "
            "engine.limits to, which replaces the pods"
        )
        return "RequiresRollout", message
    return "NoTarget", "slo names no target"
