"""`affinity` and `topologySpreadConstraints` of the pod: what is not declared is not there."""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import selector_labels
from headrace_operator.api.placement import Affinity, PodRules, PodTerm, Requirement, Spread

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(declared: Affinity, service: str) -> dict[str, Any]:
    """Pods that are not said are those of the service."""
    return _given(
        nodeAffinity=_given(
            **{
                _REQUIRED: _given(nodeSelectorTerms=[_node_term(term) for term in declared.required_nodes]),
                _PREFERRED: [
                    {"weight": weight, "preference": _node_term(term)}
                    for weight, term in declared.preferred_nodes
                ],
            }
        ),
        podAffinity=_pod_rules(declared.near, service),
        podAntiAffinity=_pod_rules(declared.apart, service),
    )


def spread(declared: tuple[Spread, ...], service: str) -> list[dict[str, Any]]:
    """Of the service's own pods."""
    return [
        {
            "topologyKey": item.topology_key,
            "maxSkew": item.max_skew,
            "whenUnsatisfiable": item.when_unsatisfiable,
            "labelSelector": {"matchLabels": selector_labels(service)},
        }
        for item in declared
    ]


def _pod_rules(rules: PodRules, service: str) -> dict[str, Any]:
    return _given(
        **{
            _REQUIRED: [_pod_term(term, service) for term in rules.required],
            _PREFERRED: [
                {"weight": weight, "podAffinityTerm": _pod_term(term, service)}
                for weight, term in rules.preferred
            ],
        }
    )


def _pod_term(term: PodTerm, service: str) -> dict[str, Any]:
    selector = _given(
        matchLabels=dict(term.labels), matchExpressions=[_expression(item) for item in term.requirements]
    )
    own = {"matchLabels": selector_labels(service)}
    return {"topologyKey": term.topology_key, "labelSelector": selector or own}


def _node_term(requirements: tuple[Requirement, ...]) -> dict[str, Any]:
    return {"matchExpressions": [_expression(item) for item in requirements]}


def _expression(item: Requirement) -> Mapping[str, Any]:
    return {"key": item.key, "operator": item.operator, **_given(values=list(item.values))}


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
