"""How far one step may go, and how soon the next: `scaling.scaleUp` and `scaling.scaleDown`.

| step | at most | not before |
| --- | --- | --- |
| up | the larger of maxStepPods and maxStepPercent of the replicas | the last one's pods serve |
| down | maxStepPods | period after the last removal |

The time of the last removal is in the status: a successor waits as long as its predecessor would have.
"""

import math

from headrace_operator.api.spec import Scaling
from headrace_operator.api.vocabulary import Bound
from headrace_operator.decide.situation import Situation


def stepped_up(scaling: Scaling, count: int, wanted: int) -> tuple[int, Bound | None]:
    """How many replicas there are to be after one step from `count` towards `wanted`, and what kept it from
    getting there. `count` is below `scaling.max_replicas`.
    """
    step = max(scaling.scale_up.step_pods, math.ceil(scaling.scale_up.step_ratio * count))
    reached = min(wanted, count + step, scaling.max_replicas)
    if reached == wanted:
        return reached, None
    if reached == count + step:
        by_pods = scaling.scale_up.step_pods >= step
        return reached, Bound.SCALE_UP_PODS if by_pods else Bound.SCALE_UP_PERCENT
    return reached, Bound.GPU_BUDGET if scaling.is_bound_by_gpus else Bound.MAX_REPLICAS


def stepped_down(scaling: Scaling, count: int, wanted: int) -> tuple[int, Bound | None]:
    """The same downwards."""
    reached = max(wanted, count - scaling.scale_down.step_pods)
    return reached, None if reached == wanted else Bound.SCALE_DOWN_PODS


def enough_since_s(situation: Situation, replicas: int) -> float | None:
    """Since when so many have been enough: fewer that were enough are a proof too."""
    return min((level.since_s for level in situation.enough if level.replicas <= replicas), default=None)


def lasting(situation: Situation) -> int:
    """The fewest replicas that have been enough all through the stabilization: the most needed in it."""
    until_s = situation.now_s - situation.spec.scaling.scale_down.stabilization_s
    proven = [level.replicas for level in situation.enough if level.since_s <= until_s]
    return min(proven, default=situation.replicas)


def since_removal_s(situation: Situation) -> float | None:
    """Seconds since replicas were last removed; None where none ever were."""
    removed_s = situation.previous.scaled_down_at_s
    return None if removed_s is None else situation.now_s - removed_s
