"""What the status remembers of rollouts: what the pods were last known to be well with, and what failed.

It is what makes a rollback hold: a template that failed is known by its digest and not tried again, whoever
leads. Read back, nothing in it is trusted: what is not as it should be is as if it were not there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace_operator.api.spec import Limits
from headrace_operator.api.units import time_s, time_text


@dataclass(frozen=True, slots=True)
class GoodRevision:
    """A pod template under which every wanted pod was ready, and the ReplicaSet that keeps it."""

    template: str
    """Digest of the template as it was rendered."""
    replica_set: str
    widest: Limits
    """The most that its engines can hold."""


@dataclass(frozen=True, slots=True)
class FailedRevision:
    """Why the template that the spec asks for is not used."""

    at_s: float
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class RolloutMemory:
    template: str
    """Digest of what the spec asks for."""
    since_s: float
    """Since when it has asked for that."""
    good: GoodRevision | None = None
    failed: FailedRevision | None = None
    lacks_gpu_since_s: float | None = None
    """Since when a pod finds no GPU that none of the service's leaving pods is about to free."""

    @property
    def is_under_way(self) -> bool:
        """Whether pods of the template are still to become ready."""
        return self.failed is None and (self.good is None or self.good.template != self.template)

    @property
    def has_another(self) -> bool:
        """Whether pods were last well with another template than the one that is asked for."""
        return self.good is not None and self.good.template != self.template


def rollout_document(memory: RolloutMemory) -> dict[str, Any]:
    """As the status holds it."""
    document: dict[str, Any] = {"template": memory.template, "since": time_text(memory.since_s)}
    if memory.good is not None:
        document["good"] = {
            "template": memory.good.template,
            "replicaSet": memory.good.replica_set,
            "maxNumSeqs": memory.good.widest.max_num_seqs,
            "maxNumBatchedTokens": memory.good.widest.max_num_batched_tokens,
        }
    if memory.lacks_gpu_since_s is not None:
        document["lacksGPUSince"] = time_text(memory.lacks_gpu_since_s)
    if memory.failed is not None:
        document["failed"] = {
            "at": time_text(memory.failed.at_s),
            "reason": memory.failed.reason,
            "message": memory.failed.message,
        }
    return document


def read_rollout(value: Any) -> RolloutMemory | None:
    """Of the status. Never raises."""
    document = _mapping(value)
    template, since_s = document.get("template"), time_s(document.get("since"))
    if not isinstance(template, str) or since_s is None:
        return None
    return RolloutMemory(
        template,
        since_s,
        good=_good(document.get("good")),
        failed=_failed(document.get("failed")),
        lacks_gpu_since_s=time_s(document.get("lacksGPUSince")),
    )


def _good(value: Any) -> GoodRevision | None:
    document = _mapping(value)
    template, replica_set = document.get("template"), document.get("replicaSet")
    seqs, tokens = _count(document.get("maxNumSeqs")), _count(document.get("maxNumBatchedTokens"))
    if not isinstance(template, str) or not isinstance(replica_set, str) or seqs is None or tokens is None:
        return None
    return GoodRevision(template, replica_set, Limits(seqs, tokens))


def _failed(value: Any) -> FailedRevision | None:
    document = _mapping(value)
    at_s, reason, message = time_s(document.get("at")), document.get("reason"), document.get("message")
    if at_s is None or not isinstance(reason, str) or not isinstance(message, str):
        return None
    return FailedRevision(at_s, reason, message)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 2**31 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
