"""What the status holds, as values: conditions, applied changes, and all that one decision leaves to the
next.

The status is the operator's only memory. `status_reading` makes these of a document, `status_document` a
document of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace_operator.api.rollout_memory import RolloutMemory
from headrace_operator.api.spec import Limits
from headrace_operator.api.vocabulary import Action, ApprovalOutcome, Bound, Outcome, Reason


@dataclass(frozen=True, slots=True)
class Setting:
    """What a decision moves: replicas and limits."""

    replicas: int
    limits: Limits


@dataclass(frozen=True, slots=True)
class Condition:
    """A metav1.Condition; `status` is True, False or Unknown, `since_s` its last transition."""

    type: str
    status: str
    reason: str
    message: str
    since_s: float


@dataclass(frozen=True, slots=True)
class Input:
    """A measured number, as text with its unit, and what it is held against."""

    name: str
    value: str
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """An action that was considered: why it is not taken."""

    action: Action
    word: str
    message: str
    limited_by: Bound | None = None
    """The field of the spec that stands against it, where it is one of the pace."""


@dataclass(frozen=True, slots=True)
class Change:
    """One applied decision, with what was measured when it was taken."""

    id: str
    at_s: float
    generation: int
    action: Action
    reason: Reason
    message: str
    before: Setting
    after: Setting
    attainment_ratio: float | None = None
    arrivals_per_s: float | None = None
    tokens_per_s: float | None = None
    outcome: Outcome | None = None
    """Of a change of limits, once judged."""
    inputs: tuple[Input, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    """What was considered instead, when it was taken."""
    approved: bool = False
    """By a person, where it was only recommended."""


@dataclass(frozen=True, slots=True)
class Recommended:
    """The recommendation that a person was shown last."""

    since_s: float
    action: Action
    after: Setting


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person asked for by annotation, and what became of it."""

    value: str
    outcome: ApprovalOutcome
    message: str

    @property
    def is_applied(self) -> bool:
        return self.outcome is ApprovalOutcome.APPLIED


@dataclass(frozen=True, slots=True)
class Enough:
    """Since when so many replicas have been enough without a break."""

    replicas: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Previous:
    """What earlier decisions left in the status. Everything is clamped to the spec where it is used."""

    desired_replicas: int | None = None
    limits: Limits | None = None
    limits_are_tuned: bool = True
    """False where they are those of `engine.limits`, and so follow it."""
    limits_since_s: float | None = None
    slo_key: str | None = None
    """The targets that `slo_since_s` is about."""
    slo_since_s: float | None = None
    slo_targets: str | None = None
    """All of the SLO: what was told of it is void where any of it changes."""
    overloaded_since_s: float | None = None
    enough: tuple[Enough, ...] = ()
    """Most replicas first, the fewer the later."""
    scaled_down_at_s: float | None = None
    decision_id: str | None = None
    decided_at_s: float | None = None
    action: Action | None = None
    reason: Reason | None = None
    recommended: Recommended | None = None
    approval: Approval | None = None
    history: tuple[Change, ...] = ()
    """Newest first."""
    conditions: tuple[Condition, ...] = ()
    rollout: RolloutMemory | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
