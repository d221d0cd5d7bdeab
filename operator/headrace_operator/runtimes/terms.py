"""What tenants are given, in the engine's own words: the same value that it keeps, and the same digest."""

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.policies import PolicyName
from headrace_operator.api import spec

POLICY_FLAG = "--scheduling-policy"


def contract(tenants: spec.Tenants) -> Contract:
    """The terms that each pod of a service is to hold its tenants to."""
    return Contract({name: _terms(own) for name, own in tenants.items}, _terms(tenants.default))


def _terms(terms: spec.Terms) -> Terms:
    return Terms(
        weight=float(terms.weight),
        max_num_seqs=terms.max_num_seqs,
        max_num_queued_reqs=terms.max_num_queued_reqs,
        max_num_queued_tokens=terms.max_num_queued_tokens,
        priority=terms.priority,
        best_priority=terms.best_priority,
    )


def scheduling_policy(service: spec.ServiceSpec) -> PolicyName | None:
    """By shares, by classes first where a tenant has one. None where the service names a policy itself."""
    if any(argument.partition("=")[0] == POLICY_FLAG for argument in service.engine.args):
        return None
    return PolicyName.SLO if service.tenants.have_classes else PolicyName.FAIR
