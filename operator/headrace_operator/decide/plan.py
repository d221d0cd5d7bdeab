"""What is to be done for one service, as plain data. Carrying it out is another package's work.

A plan holds only what differs from the observation it was made of: carried out, the next plan of the same
facts is empty. Order of carrying out: status first (it is the memory: what it wants is what a successor
finishes), then objects, pod annotations, engine calls, events.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace_engine.core.contract import Contract
from headrace_engine.core.policies import PolicyName
from headrace_operator.api.spec import Limits


@dataclass(frozen=True, slots=True)
class PodAnnotations:
    """Annotations to set on a live pod by server-side apply, field manager `headrace`."""

    pod_name: str
    pod_uid: str
    """Precondition: another pod of that name is not meant."""
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SetLimits:
    """Signed `PATCH /v1/admin/limits` on one pod whose active limits or tenants' terms differ."""

    pod_name: str
    pod_uid: str
    pod_ip: str
    limits: Limits
    tenants: Contract | None = None
    policy: PolicyName | None = None
    """By which requests are admitted. None leaves either as it is."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Signed `POST /v1/admin/drain` on one pod. Repeating it is harmless."""

    pod_name: str
    pod_uid: str
    pod_ip: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Event:
    """One Kubernetes Event about the service. Made on transitions only."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to do now, and when to look again."""

    status: Mapping[str, Any] | None = None
    """The whole status document to apply; None where it says the same as the live one."""
    objects: tuple[Mapping[str, Any], ...] = ()
    """Whole manifests to apply by server-side apply with force."""
    annotate: tuple[PodAnnotations, ...] = ()
    set_limits: tuple[SetLimits, ...] = ()
    drain: tuple[Drain, ...] = ()
    events: tuple[Event, ...] = ()
    wake_after_s: float | None = None
    """Look again after so long even if nothing happens; None: the regular interval will do."""

    @property
    def words(self) -> "Plan":
        """What it tells, without what it does."""
        return Plan(status=self.status, events=self.events)

    @property
    def is_empty(self) -> bool:
        return self.status is None and not (self.objects or self.annotate or self.set_limits or self.drain)
