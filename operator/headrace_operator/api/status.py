"""What the status says, read back as values: the only memory of the operator.

`read(raw)` takes any JSON and never raises: what is malformed or forged is None, and every use clamps to the spec.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace_operator.api.spec import Limits
from headrace_operator.api.vocabulary import Action, Reason


@dataclass(frozen=True, slots=True)
class Condition:
    """A metav1.Condition; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str
    since_s: float


@dataclass(frozen=True, slots=True)
class Change:
    """One applied decision, with what was measured when it was taken."""

    id: str
    at_s: float
    action: Action
    reason: Reason
    message: str
    from_replicas: int
    to_replicas: int
    from_limits: Limits
    to_limits: Limits
    attainment_ratio: float | None = None
    arrivals_per_s: float | None = None
    tokens_per_s: float | None = None
    outcome: str | None = None
    """Of a change of limits, once judged: `Kept` or `RolledBack`."""


@dataclass(frozen=True, slots=True)
class Previous:
    """What earlier decisions left in the status."""

    observed_generation: int | None = None
    desired_replicas: int | None = None
    limits: Limits | None = None
    overloaded_since_s: float | None = None
    slack_since_s: float | None = None
    decision_id: str | None = None
    action: Action | None = None
    reason: Reason | None = None
    history: tuple[Change, ...] = ()
    """Newest first."""
    conditions: tuple[Condition, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)


def read(raw: Any) -> Previous:
    """The status in `raw` (None where there is none). Never raises."""
    raise NotImplementedError
