"""An InferenceService as the story reads it. What the object does not say is None."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """One of `.status.conditions`."""

    type: str
    status: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.type}={self.status} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the operator decided, and why: `.status.decision` and the entries of `.status.history`."""

    id: str | None
    action: str | None
    reason: str | None
    message: str | None
    raw: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.action} ({self.reason}): {self.message}"

    @property
    def rejected(self) -> tuple[str, ...]:
        """What was considered and not done, with the reason; history does not keep it."""
        alternatives = self.raw.get("alternatives") or []
        return tuple(f"{other['action']} ({other['rejected']}): {other['message']}" for other in alternatives)


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The parts of one version of the object that the story tells of."""

    conditions: tuple[Condition, ...]
    replicas: int | None
    ready_replicas: int | None
    desired_replicas: int | None
    limits: tuple[int | None, int | None]
    """Active max_num_seqs and max_num_batched_tokens."""
    observed: dict[str, Any]
    decision: Decision | None
    history: tuple[Decision, ...]
    """Applied changes, newest first."""

    @classmethod
    def of(cls, document: dict[str, Any]) -> "ServiceView":
        """Reads the JSON of an InferenceService."""
        status = document.get("status") or {}
        limits = status.get("activeLimits") or {}
        decision = status.get("decision")
        return cls(
            conditions=tuple(map(_condition, status.get("conditions") or [])),
            replicas=status.get("replicas"),
            ready_replicas=status.get("readyReplicas"),
            desired_replicas=status.get("desiredReplicas"),
            limits=(limits.get("maxNumSeqs"), limits.get("maxNumBatchedTokens")),
            observed=status.get("observed") or {},
            decision=_decision(decision) if decision else None,
            history=tuple(map(_decision, status.get("history") or [])),
        )

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, if the status has it."""
        return next((condition for condition in self.conditions if condition.type == type_), None)

    def is_true(self, type_: str) -> bool:
        """Whether the condition of that type is True."""
        condition = self.condition(type_)
        return condition is not None and condition.status == "True"

    @property
    def decision_text(self) -> str:
        """The newest decision with what was considered and not done."""
        if self.decision is None:
            return "none"
        return ", rather than ".join((str(self.decision), *self.decision.rejected))

    @property
    def limits_text(self) -> str:
        """`max_num_seqs/max_num_batched_tokens`."""
        return "/".join("-" if limit is None else str(limit) for limit in self.limits)


def _condition(entry: dict[str, Any]) -> Condition:
    return Condition(entry["type"], entry["status"], entry.get("reason", ""), entry.get("message", ""))


def _decision(entry: dict[str, Any]) -> Decision:
    return Decision(entry.get("id"), entry.get("action"), entry.get("reason"), entry.get("message"), entry)
