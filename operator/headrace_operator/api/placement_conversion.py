"""From the validated parts of `engine.template` to `Placement`."""

from collections.abc import Sequence

from headrace_operator.api.affinity_resource import (
    AffinityPart,
    LabelRequirementPart,
    NodeRequirementPart,
    PodAffinityPart,
    PodTermPart,
)
from headrace_operator.api.placement import (
    Affinity,
    Placement,
    PodRules,
    PodTerm,
    Requirement,
    Spread,
    Toleration,
)
from headrace_operator.api.placement_resource import TemplatePart


def placement(part: TemplatePart) -> Placement:
    """What is left out becomes empty, or None."""
    return Placement(
        labels=tuple(sorted(part.labels.items())),
        node_selector=tuple(sorted(part.node_selector.items())),
        tolerations=tuple(
            Toleration(item.key, item.operator, item.value, item.effect, item.toleration_seconds)
            for item in part.tolerations
        ),
        priority_class_name=part.priority_class_name,
        affinity=_affinity(part.affinity),
        spread=tuple(
            Spread(item.topology_key, item.max_skew, item.when_unsatisfiable)
            for item in part.topology_spread_constraints
        ),
    )


def _affinity(part: AffinityPart | None) -> Affinity:
    if part is None:
        return Affinity()
    nodes = part.node_affinity
    required, preferred = (None, None) if nodes is None else (nodes.required, nodes.preferred)
    terms = () if required is None else required.node_selector_terms
    return Affinity(
        required_nodes=tuple(_requirements(term.match_expressions) for term in terms),
        preferred_nodes=tuple(
            (item.weight, _requirements(item.preference.match_expressions)) for item in preferred or ()
        ),
        near=_pod_rules(part.pod_affinity),
        apart=_pod_rules(part.pod_anti_affinity),
    )


def _pod_rules(part: PodAffinityPart | None) -> PodRules:
    if part is None:
        return PodRules()
    return PodRules(
        required=tuple(_pod_term(term) for term in part.required or ()),
        preferred=tuple((item.weight, _pod_term(item.pod_affinity_term)) for item in part.preferred or ()),
    )


def _pod_term(part: PodTermPart) -> PodTerm:
    selector = part.label_selector
    labels = {} if selector is None else selector.match_labels or {}
    return PodTerm(
        topology_key=part.topology_key,
        labels=tuple(sorted(labels.items())),
        requirements=() if selector is None else _requirements(selector.match_expressions or ()),
    )


def _requirements(
    parts: Sequence[NodeRequirementPart] | Sequence[LabelRequirementPart],
) -> tuple[Requirement, ...]:
    return tuple(Requirement(part.key, part.operator, tuple(part.values or ())) for part in parts)
