"""Which way the scheduler limits move, and how far: they cost nothing and act within seconds.

Lowering protects the time between tokens, raising shortens the queue. A raise goes no further than ITL is
expected to allow if it grows in proportion, which overstates it: a step has a constant part too. A limit at
which ITL broke, or whose change was rolled back, is not tried again while that change stands in the history.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from headrace_operator.api.spec import Limits
from headrace_operator.api.status import Change
from headrace_operator.api.units import duration_text
from headrace_operator.api.vocabulary import Action, Outcome, Reason
from headrace_operator.decide.decision import Decision, Rejection
from headrace_operator.decide.explain import itl_text, queue_text, use_text
from headrace_operator.decide.feasibility import is_infeasible
from headrace_operator.decide.load import Load
from headrace_operator.decide.situation import Situation

ITL_MARGIN = 0.95
"""Of the ITL target, that a raise is expected to stay below."""
PREFILL_PEAK_RATIO = 0.5
"""Of the token budget in the worst steps, from which on prefill is what makes them long."""
MEMORY_INTERVALS = 60
"""So many tuning intervals long a limit that did harm is not tried again; the load may have changed since."""
NO_CEILING = 2**31
LOWERING = frozenset({Action.LOWER_SEQ_LIMIT, Action.LOWER_BUDGET})
RAISING = frozenset({Action.RAISE_SEQ_LIMIT, Action.RAISE_BUDGET})


def lower_for_itl(situation: Situation, load: Load) -> Decision | Rejection:
    """Shorter steps: a smaller token budget where prefill makes them long, else fewer sequences."""
    limits, tuning = situation.setting.limits, situation.spec.tuning
    kept = 1 - tuning.max_change_ratio
    peak = load.budget_peak_ratio
    if load.carries_prefill and peak is not None and peak >= PREFILL_PEAK_RATIO:
        # What is not in use is no protection: the move starts from what the worst steps use.
        in_use = min(limits.max_num_batched_tokens, math.ceil(limits.max_num_batched_tokens * peak))
        low = max(tuning.max_num_batched_tokens.low, limits.max_num_seqs, _floor(situation, "tokens"))
        lowered = max(low, math.floor(in_use * kept))
        if lowered < limits.max_num_batched_tokens:
            after = replace(limits, max_num_batched_tokens=lowered)
            return _move(situation, load, Action.LOWER_BUDGET, Reason.ITL_OVER_TARGET, after, in_use=in_use)
    if is_infeasible(load):
        message = f"a request alone takes longer than its target: {itl_text(load)}; {use_text(load)}"
        return Rejection(Action.LOWER_SEQ_LIMIT, Reason.SLO_INFEASIBLE, message)
    in_use = min(limits.max_num_seqs, math.ceil(load.running_peak or limits.max_num_seqs))
    lowered = max(tuning.max_num_seqs.low, _floor(situation, "seqs"), math.floor(in_use * kept))
    if lowered < limits.max_num_seqs:
        after = replace(limits, max_num_seqs=lowered)
        return _move(situation, load, Action.LOWER_SEQ_LIMIT, Reason.ITL_OVER_TARGET, after, in_use=in_use)
    return Rejection(Action.LOWER_SEQ_LIMIT, Reason.AT_MIN, f"at the lowest: {use_text(load)}")


def raise_for_queue(situation: Situation, load: Load) -> Decision | Rejection:
    """More at once, where a limit is what makes requests wait and ITL has room."""
    limits, tuning = situation.setting.limits, situation.spec.tuning
    if load.seqs_bind:
        action, reason, current = Action.RAISE_SEQ_LIMIT, Reason.SEQ_LIMIT_SATURATED, limits.max_num_seqs
        high = min(tuning.max_num_seqs.high, limits.max_num_batched_tokens, _ceiling(situation, "seqs"))
    elif load.budget_binds:
        action, reason = Action.RAISE_BUDGET, Reason.BUDGET_SATURATED
        current = limits.max_num_batched_tokens
        high = min(tuning.max_num_batched_tokens.high, _ceiling(situation, "tokens"))
    else:
        return Rejection(
            Action.RAISE_SEQ_LIMIT, "NotBinding", f"no limit makes requests wait: {use_text(load)}"
        )
    if high <= current:
        return Rejection(action, Reason.AT_MAX, f"at the highest value that is allowed: {current}")
    wanted = max(current + 1, math.floor(current * (1 + tuning.max_change_ratio)))
    room = _itl_room(load)
    if room is None:
        return Rejection(action, Reason.INSUFFICIENT_DATA, itl_text(load))
    raised = math.floor(min(high, wanted, current * room))
    if raised <= current:
        predicted = duration_text((load.itl_s or 0.0) * (current + 1) / current)
        return Rejection(action, "WouldBreakITL", f"{itl_text(load)}; {current + 1} may make it {predicted}")
    field = "max_num_seqs" if action is Action.RAISE_SEQ_LIMIT else "max_num_batched_tokens"
    return _move(situation, load, action, reason, replace(limits, **{field: raised}))


def judged(situation: Situation, load: Load) -> Outcome | None:
    """How the latest change turned out; None where it is no change of limits or is judged already.

    A raise can only harm ITL, a lowering only the queue; what got worse otherwise came with the load.
    """
    latest = situation.previous.history[0] if situation.previous.history else None
    if latest is None or latest.outcome is not None or latest.action not in LOWERING | RAISING:
        return None
    before, now = latest.attainment_ratio, load.attainment_ratio
    if before is None or now is None or latest.arrivals_per_s is None or load.arrivals_per_s is None:
        return Outcome.KEPT
    drop = situation.spec.tuning.rollback_drop_ratio
    is_worse = now < before - drop and load.arrivals_per_s <= 1.2 * latest.arrivals_per_s
    did_harm = load.itl_is_over if latest.action in RAISING else load.queue_is_over
    return Outcome.ROLLED_BACK if is_worse and did_harm else Outcome.KEPT


def roll_back(situation: Situation, load: Load) -> Decision:
    """The limits of before the latest change, as far as the spec still allows them."""
    latest, tuning = situation.previous.history[0], situation.spec.tuning
    limits = Limits(
        tuning.max_num_seqs.clamp(latest.before.limits.max_num_seqs),
        tuning.max_num_batched_tokens.clamp(latest.before.limits.max_num_batched_tokens),
    )
    message = (
        f"attainment fell from {latest.attainment_ratio or 0:.2f} to {load.attainment_ratio or 0:.2f} after "
        f"{latest.action}: {itl_text(load)}; {queue_text(load)}"
    )
    after = replace(situation.setting, limits=limits)
    return Decision(Action.ROLL_BACK_LIMITS, Reason.ROLLED_BACK, message, after)


def _move(
    situation: Situation,
    load: Load,
    action: Action,
    reason: Reason,
    limits: Limits,
    *,
    in_use: int | None = None,
) -> Decision:
    old, new = situation.setting.limits, limits
    name, before, after = (
        ("maxNumSeqs", old.max_num_seqs, new.max_num_seqs)
        if old.max_num_seqs != new.max_num_seqs
        else ("maxNumBatchedTokens", old.max_num_batched_tokens, new.max_num_batched_tokens)
    )
    why = itl_text(load) if action in LOWERING else f"{queue_text(load)}; {itl_text(load)}"
    # A limit far above its use comes down in one move: the message says what the step is a step from.
    start = f" ({in_use} in use at most)" if in_use is not None and in_use < before else ""
    message = f"{name} {before} to {after}{start}: {why}; {use_text(load)}"
    return Decision(action, reason, message, replace(situation.setting, limits=limits))


def _itl_room(load: Load) -> float | None:
    """By what factor concurrency may grow. None where ITL has a target and is not known."""
    if load.slo.itl_s is None:
        return math.inf
    return None if not load.itl_s else ITL_MARGIN * load.slo.itl_s / load.itl_s


def _remembered(situation: Situation) -> Iterator[Change]:
    oldest_s = situation.now_s - MEMORY_INTERVALS * situation.spec.tuning.interval_s
    for change in situation.previous.history:
        if change.at_s >= oldest_s and change.generation == situation.spec.generation:
            yield change


def _value(limits: Limits, which: str) -> int:
    return limits.max_num_seqs if which == "seqs" else limits.max_num_batched_tokens


def _ceiling(situation: Situation, which: str) -> int:
    """The highest value that did no harm to ITL, as far as the history knows."""
    harmful = [
        _value(change.before.limits if change.action in LOWERING else change.after.limits, which)
        for change in _remembered(situation)
        if (change.action in LOWERING and change.outcome is not Outcome.ROLLED_BACK)
        or (change.action in RAISING and change.outcome is Outcome.ROLLED_BACK)
        if _value(change.before.limits, which) != _value(change.after.limits, which)
    ]
    return min(harmful) - 1 if harmful else NO_CEILING


def _floor(situation: Situation, which: str) -> int:
    """The lowest value that did no harm to the queue, as far as the history knows."""
    harmful = [
        _value(change.after.limits, which)
        for change in _remembered(situation)
        if change.action in LOWERING and change.outcome is Outcome.ROLLED_BACK
        if _value(change.before.limits, which) != _value(change.after.limits, which)
    ]
    return max(harmful) + 1 if harmful else 0
