"""Which of the possible moves is made: one at a time, the cheap ones first.

| queue | ITL | TTFT | move |
| --- | --- | --- | --- |
| over | over | any | replicas more; at the most, lower only where a deadline sheds what then waits longer |
| fits | over | any | lower the limit that makes steps long: the queue has room; else replicas more |
| over | fits | any | raise the limit that binds, as far as ITL allows; else replicas more |
| fits | fits | over | the same |
| fits | fits | fits | replicas less, where the rest is enough |

Before all that: a pause, missing data, a rollout and pods on their way hold; a change is judged before the
next.
"""

from dataclasses import dataclass, field

from headrace_operator.api.units import time_text
from headrace_operator.api.vocabulary import Action, Bound, Outcome, Reason
from headrace_operator.decide import limits_tuning, replicas
from headrace_operator.decide.decision import Decision, Rejection
from headrace_operator.decide.explain import inputs, latencies_text, missed_reason
from headrace_operator.decide.load import Load
from headrace_operator.decide.situation import Situation

PAUSED = "spec.paused or annotation headrace.dev/paused is set"


@dataclass(frozen=True, slots=True)
class Knobs:
    """What a choice may move."""

    replicas: bool
    limits: bool

    @property
    def any(self) -> bool:
        return self.replicas or self.limits


@dataclass(slots=True)
class _Choice:
    """Tries moves in turn; the first that is possible wins, the others are remembered as rejected."""

    situation: Situation
    rejections: list[Rejection] = field(default_factory=list)
    decision: Decision | None = None

    def consider(self, move: Decision | Rejection) -> None:
        if isinstance(move, Rejection):
            self.rejections.append(move)
        elif self.decision is None:
            self.decision = move

    @property
    def is_open(self) -> bool:
        return self.decision is None


def choose(situation: Situation, knobs: Knobs) -> Decision:
    """The move to make, or a Hold that says why there is none."""
    obstacle = _obstacle(situation, knobs)
    if obstacle is not None:
        return obstacle
    load = situation.load
    assert load is not None
    choice = _Choice(situation)
    if knobs.limits and limits_tuning.judged(situation, load) is Outcome.ROLLED_BACK:
        back = limits_tuning.roll_back(situation, load)
        if back.after != situation.setting:
            return back.explained(inputs(load), ())
    if load.itl_is_over and load.queue_is_over:
        _more_for_both(choice, load, knobs)
    elif load.itl_is_over:
        _faster(choice, load, knobs)
    elif load.is_over:
        _more(choice, load, knobs)
    elif knobs.replicas and not _is_changing(situation):
        choice.consider(replicas.less(situation, load))
    decision = choice.decision or _hold_with_load(situation, load, choice.rejections)
    return decision.explained(inputs(load), tuple(choice.rejections))


def hold(situation: Situation, reason: Reason, message: str, bound: Bound | None = None) -> Decision:
    """Nothing is done, for a reason; `bound` is the field of the spec that stands against it."""
    return Decision(Action.HOLD, reason, message, situation.setting, limited_by=bound)


def _obstacle(situation: Situation, knobs: Knobs) -> Decision | None:
    spec, supply = situation.spec, situation.supply
    if spec.paused:
        return hold(situation, Reason.PAUSED, f"{PAUSED}: the service goes on serving as it is")
    if not knobs.any:
        if situation.conflict is not None and situation.conflict.stops_scaling:
            return hold(situation, Reason.CONFLICT, situation.conflict.message)
        if spec.replicas is not None:
            return hold(situation, Reason.PINNED_BY_USER, f"spec.replicas pins {spec.replicas}")
        return hold(situation, Reason.FIXED_BY_SPEC, "neither scaling nor tuning is on")
    if supply.is_rolling_out:
        return hold(situation, Reason.ROLLOUT_IN_PROGRESS, "pods are being replaced by those of a new spec")
    if supply.loading:
        names = ", ".join(pod.name for pod in supply.loading[:3])
        since = time_text(min(pod.created_s for pod in supply.loading))
        message = f"{len(supply.loading)} pod(s) load since {since}: {names}"
        return hold(situation, Reason.SCALING_IN_PROGRESS, message)
    if situation.blindness is not None:
        return hold(situation, situation.blindness.reason, situation.blindness.message)
    return None


def _is_changing(situation: Situation) -> bool:
    return bool(situation.supply.draining or situation.supply.stuck)


def _more(choice: _Choice, load: Load, knobs: Knobs) -> None:
    if knobs.limits:
        choice.consider(limits_tuning.raise_for_queue(choice.situation, load))
    if choice.is_open and knobs.replicas:
        choice.consider(replicas.more(choice.situation, load))


def _faster(choice: _Choice, load: Load, knobs: Knobs) -> None:
    if knobs.limits:
        choice.consider(limits_tuning.lower_for_itl(choice.situation, load))
    if choice.is_open and knobs.replicas:
        choice.consider(replicas.more(choice.situation, load))


def _more_for_both(choice: _Choice, load: Load, knobs: Knobs) -> None:
    """Raising would hurt the one and lowering the other: capacity is what lacks."""
    if knobs.replicas:
        move = replicas.more(choice.situation, load)
        choice.consider(move)
        if isinstance(move, Rejection) and move.word == Reason.STABILIZING:
            return
    if choice.is_open and knobs.limits and load.slo.queue_deadline_s is not None:
        choice.consider(limits_tuning.lower_for_itl(choice.situation, load))


def _hold_with_load(situation: Situation, load: Load, rejections: list[Rejection]) -> Decision:
    """Nothing can be done, or nothing is to be done: the last obstacle says which."""
    last = next((found for found in reversed(rejections) if found.word in set(Reason)), None)
    if last is not None and (load.is_over or last.word == Reason.STABILIZING):
        return hold(situation, Reason(last.word), last.message, last.limited_by)
    reason = missed_reason(load) if load.is_over else Reason.WITHIN_TARGET
    return hold(situation, reason, latencies_text(load))
