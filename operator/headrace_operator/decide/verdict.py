"""What is done and what is only recommended, of one situation under one mandate."""

from dataclasses import dataclass

from headrace_operator.api.spec import ServiceSpec
from headrace_operator.api.status import Approval, Change, Previous, Setting
from headrace_operator.api.status_document import message_text
from headrace_operator.api.vocabulary import Action, Outcome
from headrace_operator.decide.approval import Advice, advice, answered
from headrace_operator.decide.decision import Decision
from headrace_operator.decide.limits_tuning import judged
from headrace_operator.decide.modes import Mandate, ordered_by_spec
from headrace_operator.decide.record import change, decision_id
from headrace_operator.decide.rules import choose
from headrace_operator.decide.situation import Situation


@dataclass(frozen=True, slots=True)
class Verdict:
    """`decision` is the one in force, shown in the status; `setting` is what holds from now on."""

    decision: Decision
    identity: str
    since_s: float
    before: Setting
    setting: Setting
    is_applied: bool
    recommended: Advice | None
    approval: Approval | None
    """The answer to what a person asked for by annotation."""
    change: Change | None
    outcome: Outcome | None
    """Of the latest change of limits, where this is the moment in which it is judged."""

    @property
    def moves_replicas(self) -> bool:
        return self.change is not None and self.decision.moves_replicas

    @property
    def removes_replicas(self) -> bool:
        return self.change is not None and self.change.action is Action.SCALE_DOWN


def verdict(situation: Situation, mandate: Mandate, asked: str | None = None) -> Verdict:
    """The decision of now. What is recommended is decided by the same rules as what is done. `asked` is what
    a person approves.
    """
    spec, previous, now_s = situation.spec, situation.previous, situation.now_s
    asked = asked and message_text(asked)  # as the status will give it back
    proposal = choose(situation, mandate.considered)
    advised = None
    if mandate.considered != mandate.allowed:
        advised = advice(spec, proposal, previous, now_s=now_s)
    ordered = _ordered(situation)
    answer = _answer(asked, advised, mandate, situation, is_free=ordered is None)
    is_approved = answer is not None and answer != previous.approval and answer.is_applied
    permitted = proposal if is_approved or mandate.permits(proposal) else choose(situation, mandate.allowed)
    applied = ordered or permitted
    # Where nothing may be done, what would be done is the more telling.
    shown = applied if applied.is_change or mandate.allowed.any else proposal
    identity, since_s = _named(shown, advised, previous, spec, now_s=now_s)
    before = situation.setting if ordered is None else _before_order(situation)
    made = None
    if applied.is_change:
        made = change(
            *(spec, applied, situation.load),
            identity=identity,
            before=before,
            at_s=now_s,
            approved=is_approved,
        )
    return Verdict(
        decision=shown,
        identity=identity,
        since_s=since_s,
        before=before,
        setting=applied.after,
        is_applied=applied is shown or not shown.is_change,
        recommended=None if is_approved else advised,
        approval=answer,
        change=made,
        outcome=_outcome(situation, mandate, applied),
    )


def _ordered(situation: Situation) -> Decision | None:
    rival = situation.conflict
    if rival is not None and rival.leaves_deployment:
        return None
    return ordered_by_spec(situation.spec, situation.previous, situation.setting)


def _before_order(situation: Situation) -> Setting:
    """What was in force until the spec was edited."""
    desired = situation.previous.desired_replicas
    return situation.setting if desired is None else Setting(desired, situation.setting.limits)


def _answer(
    asked: str | None, advised: Advice | None, mandate: Mandate, situation: Situation, *, is_free: bool
) -> Approval | None:
    """What the spec orders comes first: an approval that is not answered yet waits for it."""
    previous = situation.previous
    if not is_free:
        known = previous.approval
        return known if known is not None and known.value == asked else None
    return answered(asked, advised, mandate, situation.spec, previous)


def _named(
    shown: Decision, advised: Advice | None, previous: Previous, spec: ServiceSpec, *, now_s: float
) -> tuple[str, float]:
    """Id of the decision that is shown, and since when it is in force."""
    if advised is not None and shown is advised.decision and shown.is_change:
        return advised.identity, advised.since_s
    is_same = not shown.is_change and (shown.action, shown.reason) == (previous.action, previous.reason)
    since_s = previous.decided_at_s if is_same and previous.decided_at_s is not None else now_s
    return decision_id(spec, shown, at_s=since_s), since_s


def _outcome(situation: Situation, mandate: Mandate, applied: Decision) -> Outcome | None:
    if applied.action is Action.ROLL_BACK_LIMITS:
        return Outcome.ROLLED_BACK
    if situation.load is None or not mandate.allowed.limits:
        return None
    return Outcome.KEPT if judged(situation, situation.load) is Outcome.KEPT else None
