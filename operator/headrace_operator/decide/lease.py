"""Who may write: the rule of the Lease.

A lease is taken only when nobody holds it, or after its record was seen unchanged for the whole of its
duration on our own monotonic clock; the times written in it are for people. Two replicas that follow the rule
never both hold it.
"""

from dataclasses import dataclass
from enum import StrEnum


class LeaseAction(StrEnum):
    CREATE = "Create"
    TAKE = "Take"
    RENEW = "Renew"
    WAIT = "Wait"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The Lease as the server has it. `holder` is empty once released; `version` changes with every write."""

    holder: str
    duration_s: float
    version: str


@dataclass(frozen=True, slots=True)
class LeaseView:
    """What we see (None: there is no Lease) and since when, by our clock, it has been exactly that."""

    record: LeaseRecord | None
    unchanged_since_s: float

    def seeing(self, record: LeaseRecord | None, now_s: float) -> "LeaseView":
        """The view after another look."""
        return self if record == self.record else LeaseView(record, now_s)


def decide_lease(*, view: LeaseView, me: str, now_s: float) -> LeaseAction:
    """What to do now. `me` is unique to this process, so that holding the lease means having taken it."""
    record = view.record
    if record is None:
        return LeaseAction.CREATE
    if record.holder == me:
        return LeaseAction.RENEW
    if not record.holder or now_s - view.unchanged_since_s >= record.duration_s:
        return LeaseAction.TAKE
    return LeaseAction.WAIT
