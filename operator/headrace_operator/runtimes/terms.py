"""What tenants are given, as engines keep it, and the policy that it takes."""

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.policies import PolicyName
from headrace_operator.api import spec

POLICY_FLAG = "--scheduling-policy"


def contract(tenants: spec.Tenants, *, ready_replicas: int = 0) -> Contract:
    """The terms that each pod of a service is to hold its tenants to. What has no rate to divide does not
    change with the pods that are ready.
    """
    divides = any(terms.has_rates for terms in tenants.terms)
    return Contract(dict(tenants.items), tenants.default, max(1, ready_replicas) if divides else 1)


def scheduling_policy(service: spec.ServiceSpec) -> PolicyName | None:
    """By shares, by classes and times first where a tenant has some. None where the service names a policy
    itself.
    """
    if any(argument.partition("=")[0] == POLICY_FLAG for argument in service.engine.args):
        return None
    return PolicyName.SLO if any(map(_needs_order, service.tenants.terms)) else PolicyName.FAIR


def _needs_order(terms: Terms) -> bool:
    """By classes, or by a time of its own."""
    has_classes = terms.priority != 0 or terms.best_priority not in {None, 0}
    return has_classes or terms.ttft_ms is not None
