"""`engine.template.affinity` and `topologySpreadConstraints`, in Kubernetes' words and shape.

What is left out is left out on purpose: pods of other namespaces are not to be asked for or kept away here.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from headrace_operator.api.fields import LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN, labels_rules
from headrace_operator.api.rules import Part, Rule

_NUMBER_PATTERN = r"^-?[0-9]{1,18}$"

Key = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=LABEL_KEY_PATTERN)]
Value = Annotated[str, StringConstraints(max_length=63, pattern=LABEL_VALUE_PATTERN)]
Weight = Annotated[int, Field(ge=1, le=100)]


def _takes_values(name: str) -> Rule:
    return Rule(
        "(self.operator in ['Exists', 'DoesNotExist']) == (!has(self.values) || size(self.values) == 0)",
        f"engine.template.{name}: Exists and DoesNotExist take no values, the other operators take some",
        lambda part: (part.operator in {"Exists", "DoesNotExist"}) == (not part.values),
        ".operator",
    )


class LabelRequirementPart(Part):
    """An expression over the labels of pods."""

    RULES: ClassVar = (_takes_values("affinity"),)
    key: Key = Field(description="Key of the label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="How it is compared.")
    values: Annotated[list[Value], Field(max_length=16)] | None = Field(
        None, description="What it is compared with."
    )


class NodeRequirementPart(Part):
    """An expression over the labels of a node."""

    RULES: ClassVar = (
        _takes_values("affinity.nodeAffinity"),
        Rule(
            "!(self.operator in ['Gt', 'Lt']) || !has(self.values) || "
            f"(size(self.values) == 1 && self.values[0].matches('{_NUMBER_PATTERN}'))",
            "engine.template.affinity.nodeAffinity: Gt and Lt take one whole number",
            lambda part: part.operator not in {"Gt", "Lt"} or _is_one_number(part.values),
            ".values",
        ),
    )
    key: Key = Field(description="Key of the label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(
        description="How it is compared."
    )
    values: Annotated[list[Annotated[str, StringConstraints(max_length=63)]], Field(max_length=16)] | None = (
        Field(None, description="What it is compared with.")
    )


def _is_one_number(values: list[str] | None) -> bool:
    return values is not None and len(values) == 1 and values[0].removeprefix("-").isdecimal()


class NodeTermPart(Part):
    """Expressions that hold together."""

    match_expressions: Annotated[list[NodeRequirementPart], Field(min_length=1, max_length=8)] = Field(
        description="All of them have to hold."
    )


class NodeTermsPart(Part):
    """What a node has to be."""

    node_selector_terms: Annotated[list[NodeTermPart], Field(min_length=1, max_length=8)] = Field(
        description="One of them has to hold."
    )


class PreferredNodePart(Part):
    """What a node had better be."""

    weight: Weight = Field(description="How much it counts, from 1 to 100.")
    preference: NodeTermPart = Field(description="What the node is.")


class NodeAffinityPart(Part):
    """By the labels of nodes."""

    required: NodeTermsPart | None = Field(
        None, alias="requiredDuringSchedulingIgnoredDuringExecution", description="What a node has to be."
    )
    preferred: Annotated[list[PreferredNodePart], Field(max_length=8)] | None = Field(
        None, alias="preferredDuringSchedulingIgnoredDuringExecution", description="What it had better be."
    )


class PodSelectorPart(Part):
    """Pods of the service's namespace by their labels."""

    match_labels: (
        Annotated[dict[str, Value], Field(max_length=8), labels_rules("engine.template.affinity")[0]] | None
    ) = Field(None, description="Labels that they have.")
    match_expressions: Annotated[list[LabelRequirementPart], Field(max_length=8)] | None = Field(
        None, description="Expressions that hold of them."
    )


class PodTermPart(Part):
    """Pods, and what counts as one place."""

    label_selector: PodSelectorPart | None = Field(
        None, description="Which pods of the service's namespace. Absent: its own."
    )
    topology_key: Key = Field(
        description="Label of nodes: those of one value are one place, such as kubernetes.io/hostname."
    )


class PreferredPodPart(Part):
    """What had better run there, or not."""

    weight: Weight = Field(description="How much it counts, from 1 to 100.")
    pod_affinity_term: PodTermPart = Field(description="Which pods, and in which place.")


class PodAffinityPart(Part):
    """By the pods that run in a place."""

    required: Annotated[list[PodTermPart], Field(max_length=4)] | None = Field(
        None, alias="requiredDuringSchedulingIgnoredDuringExecution", description="All of them have to hold."
    )
    preferred: Annotated[list[PreferredPodPart], Field(max_length=4)] | None = Field(
        None, alias="preferredDuringSchedulingIgnoredDuringExecution", description="They had better hold."
    )


class AffinityPart(Part):
    """Which nodes the pods go to."""

    node_affinity: NodeAffinityPart | None = Field(None, description="By the labels of nodes.")
    pod_affinity: PodAffinityPart | None = Field(None, description="Where such pods run.")
    pod_anti_affinity: PodAffinityPart | None = Field(None, description="Where no such pods run.")


class SpreadPart(Part):
    """How evenly the service's pods lie over places."""

    topology_key: Key = Field(
        description="Label of nodes: those of one value are one place, such as topology.kubernetes.io/zone."
    )
    max_skew: Annotated[int, Field(ge=1, le=1_000)] = Field(
        1, description="Most pods that one place may have more than another."
    )
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = Field(
        "DoNotSchedule", description="What becomes of a pod that would make it worse."
    )


EACH_ONCE = Rule(
    "self.all(x, self.exists_one(y, y.topologyKey == x.topologyKey && "
    "y.whenUnsatisfiable == x.whenUnsatisfiable))",
    "engine.template.topologySpreadConstraints: a topologyKey is named twice",
    lambda parts: len({(part.topology_key, part.when_unsatisfiable) for part in parts}) == len(parts),
)
