"""What is done and what is only recommended, of one situation under one mandate."""

from dataclasses import dataclass

from headrace_operator.api.status import Change, Setting
from headrace_operator.api.vocabulary import Action, Outcome
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
    recommended: Decision | None
    change: Change | None
    outcome: Outcome | None
    """Of the latest change of limits, where this is the moment in which it is judged."""

    @property
    def moves_replicas(self) -> bool:
        return self.change is not None and self.decision.moves_replicas


def verdict(situation: Situation, mandate: Mandate) -> Verdict:
    """The decision of now. What is recommended is decided by the same rules as what is done."""
    spec, previous, now_s = situation.spec, situation.previous, situation.now_s
    proposal = choose(situation, mandate.considered)
    permitted = proposal if mandate.permits(proposal) else choose(situation, mandate.allowed)
    ordered = ordered_by_spec(spec, previous, situation.setting)
    applied = ordered or permitted
    # Where nothing may be done, what would be done is the more telling.
    shown = applied if applied.is_change or mandate.allowed.any else proposal
    is_same = not applied.is_change and (shown.action, shown.reason) == (previous.action, previous.reason)
    since_s = previous.decided_at_s if is_same and previous.decided_at_s is not None else now_s
    identity = decision_id(spec, shown, at_s=since_s)
    before = situation.setting
    if ordered is not None and previous.desired_replicas is not None:
        before = Setting(previous.desired_replicas, situation.setting.limits)
    return Verdict(
        decision=shown,
        identity=identity,
        since_s=since_s,
        before=before,
        setting=applied.after,
        is_applied=applied is shown or not shown.is_change,
        recommended=proposal if mandate.considered != mandate.allowed else None,
        change=(
            change(spec, applied, situation.load, identity=identity, before=before, at_s=now_s)
            if applied.is_change
            else None
        ),
        outcome=_outcome(situation, mandate, applied),
    )


def _outcome(situation: Situation, mandate: Mandate, applied: Decision) -> Outcome | None:
    if applied.action is Action.ROLL_BACK_LIMITS:
        return Outcome.ROLLED_BACK
    if situation.load is None or not mandate.allowed.limits:
        return None
    return Outcome.KEPT if judged(situation, situation.load) is Outcome.KEPT else None
