"""What the user leaves to Headrace, and what is only to be recommended.

| scaling.mode | spec.replicas | replicas |
| --- | --- | --- |
| any | set | that many |
| Fixed | absent | minReplicas |
| External | absent | as they are: the other autoscaler has not spoken yet |
| Recommend | absent | as they are, inside the bounds |
| Auto | absent | decided |
"""

from dataclasses import dataclass

from headrace_operator.api.spec import Limits, ScalingMode, ServiceSpec, TuningMode
from headrace_operator.api.status import Previous, Setting
from headrace_operator.api.vocabulary import Action, Reason
from headrace_operator.decide.conflict import Conflict
from headrace_operator.decide.decision import Decision
from headrace_operator.decide.rules import Knobs
from headrace_operator.runtimes.registry import adapter


@dataclass(frozen=True, slots=True)
class Mandate:
    """`considered` is what is decided about, `allowed` what of it is carried out."""

    considered: Knobs
    allowed: Knobs

    def permits(self, decision: Decision) -> bool:
        if not decision.is_change:
            return True
        return self.allowed.replicas if decision.moves_replicas else self.allowed.limits


def mandate(spec: ServiceSpec, rival: Conflict | None = None) -> Mandate:
    """What may be moved under this spec, where nobody else moves it."""
    is_free = spec.replicas is None and not (rival is not None and rival.stops_scaling)
    has_target = spec.slo.has_target
    scales, tunes = spec.scaling.mode, spec.tuning.mode
    return Mandate(
        considered=Knobs(
            replicas=is_free and scales in {ScalingMode.AUTO, ScalingMode.RECOMMEND},
            limits=has_target and tunes in {TuningMode.AUTO, TuningMode.RECOMMEND},
        ),
        allowed=Knobs(
            replicas=is_free and scales is ScalingMode.AUTO,
            limits=has_target
            and tunes is TuningMode.AUTO
            and adapter(spec.engine.runtime).changes_limits_live,
        ),
    )


def setting_in_force(spec: ServiceSpec, previous: Previous, *, deployed_replicas: int | None) -> Setting:
    """What the status left, else what the cluster runs, inside what the spec allows.

    A forged status moves nothing outside the spec's bounds.
    """
    known = previous.desired_replicas if previous.desired_replicas is not None else deployed_replicas
    return Setting(_replicas(spec, known), _limits(spec, previous))


def ordered_by_spec(spec: ServiceSpec, previous: Previous, setting: Setting) -> Decision | None:
    """The change of replicas that the spec itself asks for; None where it asks for none."""
    before = previous.desired_replicas
    if before is None or before == setting.replicas:
        return None
    if spec.replicas is not None:
        reason, why = Reason.PINNED_BY_USER, f"spec.replicas is {spec.replicas}"
    elif spec.scaling.mode is ScalingMode.FIXED:
        reason, why = Reason.FIXED_BY_SPEC, f"scaling.mode is Fixed, minReplicas {spec.scaling.min_replicas}"
    elif before < setting.replicas:
        reason, why = Reason.AT_MIN, f"minReplicas is {spec.scaling.min_replicas}"
    else:
        reason, why = Reason.AT_MAX, f"maxReplicas is {spec.scaling.max_replicas}"
    action = Action.SCALE_UP if setting.replicas > before else Action.SCALE_DOWN
    return Decision(action, reason, f"replicas {before} to {setting.replicas}: {why}", setting)


def _replicas(spec: ServiceSpec, known: int | None) -> int:
    scaling = spec.scaling
    if spec.replicas is not None:
        return spec.replicas
    if scaling.mode is ScalingMode.FIXED or known is None:
        return scaling.min_replicas
    if scaling.mode is ScalingMode.EXTERNAL:
        return min(known, 1_000)
    return max(scaling.min_replicas, min(scaling.max_replicas, known))


def _limits(spec: ServiceSpec, previous: Previous) -> Limits:
    """What was never tuned follows `engine.limits`, also where that is raised."""
    capacity, tuning = spec.engine.capacity, spec.tuning
    widest = Limits(capacity.max_num_seqs, capacity.max_num_batched_tokens)
    if tuning.mode is TuningMode.OFF or not adapter(spec.engine.runtime).changes_limits_live:
        return widest
    limits = previous.limits if previous.limits is not None and previous.limits_are_tuned else widest
    return Limits(
        tuning.max_num_seqs.clamp(limits.max_num_seqs),
        tuning.max_num_batched_tokens.clamp(limits.max_num_batched_tokens),
    )
