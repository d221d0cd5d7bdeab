"""The policies by the names that a user gives them (`--scheduling-policy`)."""

from enum import StrEnum

from headrace_engine.core.deadline import EarliestDeadline, Feasible
from headrace_engine.core.fair import FairShare
from headrace_engine.core.guarantee import Guaranteed
from headrace_engine.core.policy import FirstComeFirstServed, Policy
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.priority import PriorityClasses
from headrace_engine.core.shortest import ShortestFirst
from headrace_engine.core.tenants import Tenants


class PolicyName(StrEnum):
    """How waiting requests are ordered."""

    FCFS = "fcfs"
    PRIORITY = "priority"
    SHORTEST = "shortest"
    DEADLINE = "deadline"
    FAIR = "fair"
    SLO = "slo"
    """Feasible ones first, then by class, by tenant, by deadline."""

    @property
    def has_classes(self) -> bool:
        """Whether a request's `priority` matters."""
        return self in (PolicyName.PRIORITY, PolicyName.SLO)


def policy_of(
    name: PolicyName, tenants: Tenants, prefill_rate: PrefillRate, *, age_s: float = 30.0
) -> Policy:
    """A new policy of this name, for the scheduler that charges these tenants and measures this rate."""

    def by_deadline() -> Policy:
        return EarliestDeadline(prefill_rate)

    def by_shares() -> Policy:
        return FairShare(tenants, by_deadline)

    def of_one() -> Policy:
        """Among the requests of one tenant."""
        match name:
            case PolicyName.FCFS | PolicyName.FAIR:
                return FirstComeFirstServed()
            case PolicyName.PRIORITY:
                return PriorityClasses(FirstComeFirstServed, age_s)
            case PolicyName.SHORTEST:
                return ShortestFirst()
            case PolicyName.DEADLINE:
                return Feasible(by_deadline(), prefill_rate)
            case PolicyName.SLO:
                return Feasible(PriorityClasses(by_deadline, age_s), prefill_rate)

    of_all: Policy
    match name:
        case PolicyName.FAIR:
            of_all = FairShare(tenants, FirstComeFirstServed)
        case PolicyName.SLO:
            of_all = Feasible(PriorityClasses(by_shares, age_s), prefill_rate)
        case _:
            of_all = of_one()
    return Guaranteed(of_all, of_one, tenants.shares)
