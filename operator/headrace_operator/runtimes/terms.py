"""What tenants are given, as engines keep it, and the policy that it takes."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

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


def change_of_terms(held: Any, wanted: Contract) -> dict[str, Any]:
    """The change that makes the terms that an engine says it holds those wanted; null takes a tenant's away.

    What is held already is not in it: an engine of another version, which does not know a term that nobody
    sets, takes the rest.
    """
    told = held if isinstance(held, Mapping) else {}
    told_items = told.get("items")
    items: Mapping[str, Any] = told_items if isinstance(told_items, Mapping) else {}
    default = _differing(told.get("default"), wanted.default)
    given = {
        name: _differing(items[name] if name in items else asdict(wanted.default), own)
        for name, own in wanted.items.items()
    }
    changed = {name: terms for name, terms in given.items() if terms or name not in items}
    gone = dict.fromkeys(name for name in items if name not in given)
    replicas = {} if told.get("replicas", 1) == wanted.replicas else {"replicas": wanted.replicas}
    return {"default": default, "items": {**gone, **changed}, **replicas}


def _differing(held: Any, wanted: Terms) -> dict[str, Any]:
    """What is not held like that. A term that is not told of is as if nobody set it."""
    if not isinstance(held, Mapping):
        return asdict(wanted)
    known = {**asdict(Terms()), **held}
    return {name: value for name, value in asdict(wanted).items() if known[name] != value}


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
