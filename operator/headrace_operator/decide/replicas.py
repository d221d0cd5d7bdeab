"""Replicas more or less: minutes and money, so only where limits cannot help, and only after a while.

More: the overload lasted, no pod is on its way yet, and the limits are bound. Less: the load that is left to
each of the others, `N / fewer` times today's, still fits, and has fitted for a while. `pace` bounds a step.
"""

import math
from dataclasses import replace

from headrace_operator.api.units import decimal_text, duration_text
from headrace_operator.api.vocabulary import Action, Bound, Reason
from headrace_operator.decide.decision import Decision, Rejection
from headrace_operator.decide.demand import is_draining, needed_replicas
from headrace_operator.decide.explain import missed_reason, missed_text, queue_text, use_text
from headrace_operator.decide.feasibility import ALONE, is_infeasible
from headrace_operator.decide.load import Load
from headrace_operator.decide.pace import (
    enough_since_s,
    lasting,
    since_removal_s,
    stepped_down,
    stepped_up,
)
from headrace_operator.decide.situation import Situation
from headrace_operator.decide.supply import lacks_gpu

LEARNED_SHARE = 0.8
"""Of what so many replicas served when they were last too few."""
MEMORY_STABILIZATIONS = 24
"""So many scale-down stabilizations long it is remembered; the requests may be others later."""


def more(situation: Situation, load: Load) -> Decision | Rejection:
    """Replicas more, for the target that is missed."""
    scaling, count = situation.spec.scaling, situation.replicas
    if situation.supply.stuck:
        is_short = any(lacks_gpu(pod, situation.spec) for pod in situation.supply.stuck)
        reason = Reason.INSUFFICIENT_GPU if is_short else Reason.SCALING_IN_PROGRESS
        pod = situation.supply.stuck[0]
        return Rejection(
            Action.SCALE_UP, reason, f"pod {pod.name} does not start: {pod.trouble or 'it takes too long'}"
        )
    existing = len(situation.supply.staying)
    if existing < count:
        # As where a quota refuses them: asking for yet another one would only pile up what is owed.
        message = f"{existing} of {count} pods exist; no other is asked for before they do"
        return Rejection(Action.SCALE_UP, Reason.SCALING_IN_PROGRESS, message)
    if is_infeasible(load):
        message = f"a request alone takes longer than its target: {missed_text(load)}; {use_text(load)}"
        return Rejection(Action.SCALE_UP, Reason.SLO_INFEASIBLE, message)
    if count >= scaling.max_replicas:
        if scaling.is_bound_by_gpus:
            message = f"{count} replicas use up scaling.gpuBudget: {missed_text(load)}"
            return Rejection(Action.SCALE_UP, Reason.GPU_BUDGET, message, Bound.GPU_BUDGET)
        message = f"at maxReplicas {count}: {missed_text(load)}"
        return Rejection(Action.SCALE_UP, Reason.AT_MAX, message, Bound.MAX_REPLICAS)
    if is_draining(load):
        message = f"{missed_text(load)}, but more ends than arrives: {count} work off what waits"
        return Rejection(Action.SCALE_UP, Reason.STABILIZING, message)
    lasted_s = situation.now_s - (situation.overloaded_since_s or situation.now_s)
    if lasted_s < scaling.scale_up.stabilization_s:
        needed = duration_text(scaling.scale_up.stabilization_s)
        message = f"{missed_text(load)} for {duration_text(lasted_s)} of {needed}"
        return Rejection(Action.SCALE_UP, Reason.STABILIZING, message, Bound.SCALE_UP_STABILIZATION)
    return _added(situation, load, lasted_s)


def _added(situation: Situation, load: Load, lasted_s: float) -> Decision:
    needed = needed_replicas(situation, load)
    wanted = max(situation.replicas + 1, math.ceil(needed or 0.0))
    reached, bound = stepped_up(situation.spec.scaling, situation.replicas, wanted)
    message = f"{missed_text(load)} for {duration_text(lasted_s)}; {use_text(load)}"
    if needed is not None and needed > situation.replicas:
        message += f"; {decimal_text(needed, 1)} replicas needed"
    after = replace(situation.setting, replicas=reached)
    return Decision(Action.SCALE_UP, missed_reason(load), message, after, limited_by=bound)


def less(situation: Situation, load: Load) -> Decision | Rejection:
    """Replicas less, where the rest is enough and has been for a while."""
    scaling, count = situation.spec.scaling, situation.replicas
    if count <= scaling.min_replicas:
        return Rejection(Action.SCALE_DOWN, Reason.AT_MIN, f"at minReplicas {count}", Bound.MIN_REPLICAS)
    obstacle = why_needed(situation, load, count - 1)
    if obstacle is not None:
        return Rejection(Action.SCALE_DOWN, Reason.WITHIN_TARGET, obstacle)
    if not situation.sees_all_pods:
        message = f"not every pod has been watched for {duration_text(situation.spec.slo.window_s)}"
        return Rejection(Action.SCALE_DOWN, Reason.INSUFFICIENT_DATA, message)
    since_s = enough_since_s(situation, count - 1)
    lasted_s = situation.now_s - (situation.now_s if since_s is None else since_s)
    if lasted_s < scaling.scale_down.stabilization_s:
        message = (
            f"{count - 1} would be enough for {duration_text(lasted_s)} of "
            f"{duration_text(scaling.scale_down.stabilization_s)}"
        )
        return Rejection(Action.SCALE_DOWN, Reason.STABILIZING, message, Bound.SCALE_DOWN_STABILIZATION)
    paused_s = since_removal_s(situation)
    if paused_s is not None and paused_s < scaling.scale_down.period_s:
        message = (
            f"{count - 1} would be enough; the last removal was {duration_text(paused_s)} ago, of "
            f"{duration_text(scaling.scale_down.period_s)} between two"
        )
        return Rejection(Action.SCALE_DOWN, Reason.STABILIZING, message, Bound.SCALE_DOWN_PERIOD)
    return _removed(situation, load, lasted_s)


def _removed(situation: Situation, load: Load, lasted_s: float) -> Decision:
    # With no stabilization at all, what is enough now is enough.
    proven = min(lasting(situation), situation.replicas - 1)
    reached, bound = stepped_down(situation.spec.scaling, situation.replicas, proven)
    if bound is None and proven > fewest(situation, load):
        bound = Bound.SCALE_DOWN_STABILIZATION
    enough = "1 replica has been enough" if reached == 1 else f"{reached} replicas have been enough"
    message = f"{enough} for {duration_text(lasted_s)}: {use_text(load)}; {queue_text(load)}"
    after = replace(situation.setting, replicas=reached)
    return Decision(Action.SCALE_DOWN, Reason.HEADROOM_EXCESS, message, after, limited_by=bound)


def fewest(situation: Situation, load: Load) -> int:
    """The fewest replicas, not below the least, that could carry the load; as many as there are, where none
    less could.
    """
    count = situation.replicas
    while count > situation.spec.scaling.min_replicas and why_needed(situation, load, count - 1) is None:
        count -= 1
    return count


def why_needed(situation: Situation, load: Load, fewer: int) -> str | None:
    """What so few replicas would break; None where nothing."""
    if fewer < 1:
        return "it is the only replica"
    factor = situation.replicas / fewer
    fit_share = 1 - situation.spec.scaling.headroom_ratio
    if load.is_over:
        return f"targets are missed: {missed_text(load)}"
    if load.running_per_pod is None:
        return "running requests are not reported"
    if load.running_per_pod * factor > fit_share * load.limits.max_num_seqs:
        return (
            f"{fewer} would run {load.running_per_pod * factor:.1f} of {load.limits.max_num_seqs} sequences"
        )
    if load.queue_s is not None and load.queue_s * factor > load.queue_budget_s / 2:
        return f"{fewer} may queue {duration_text(load.queue_s * factor)}"
    if load.kv_used_ratio is not None and load.kv_used_ratio * factor > fit_share:
        return f"{fewer} would use {100 * load.kv_used_ratio * factor:.0f}% of the KV cache"
    if load.budget_used_ratio is not None and load.budget_used_ratio * factor > fit_share:
        return f"{fewer} would use {100 * load.budget_used_ratio * factor:.0f}% of the token budget"
    if load.running_per_pod * factor <= ALONE:
        return None
    return _why_needed_for_latency(load, factor, fewer) or _why_needed_once(situation, load, fewer)


def _why_needed_for_latency(load: Load, factor: float, fewer: int) -> str | None:
    """ITL in proportion to the requests that run at once: no less than it really grows."""
    if load.itl_s is None or load.slo.itl_s is None:
        return None
    expected_s = load.itl_s * factor
    return (
        None
        if expected_s <= load.slo.itl_s
        else f"{fewer} may take {duration_text(expected_s)} between tokens"
    )


def _why_needed_once(situation: Situation, load: Load, fewer: int) -> str | None:
    """What so few replicas, or more, served when they were last too few bounds what they can serve now."""
    oldest_s = situation.now_s - MEMORY_STABILIZATIONS * situation.spec.scaling.scale_down.stabilization_s
    for change in situation.previous.history:
        was_too_few = change.action is Action.SCALE_UP and change.before.replicas >= fewer
        is_known = change.tokens_per_s is not None and load.tokens_per_s is not None
        if not was_too_few or not is_known or change.at_s < oldest_s:
            continue
        served, now = change.tokens_per_s or 0.0, load.tokens_per_s or 0.0
        if change.generation == situation.spec.generation and now > LEARNED_SHARE * served:
            return f"{change.before.replicas} were too few at {served:.0f} tokens/s, now {now:.0f}"
    return None
