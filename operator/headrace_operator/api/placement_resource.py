"""`spec.engine.template`: where pods may run and what they are labeled. No part of a pod template passes."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from headrace_operator.api.affinity_resource import EACH_ONCE, AffinityPart, SpreadPart
from headrace_operator.api.fields import (
    LABEL_KEY_PATTERN,
    LABEL_VALUE_PATTERN,
    DnsName,
    LabelValue,
    labels_rules,
    matching,
)
from headrace_operator.api.rules import Part, Rule

RESERVED_LABEL_PREFIXES = ("headrace.dev/", "app.kubernetes.io/")
"""Of labels that pods are selected and counted by."""

LabelKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=253),
    matching(LABEL_KEY_PATTERN, "engine.template: not the key of a label"),
]


class TolerationPart(Part):
    """A taint that the pods tolerate."""

    RULES: ClassVar = (
        Rule(
            "self.operator == 'Equal' ? has(self.key) : !has(self.value)",
            "engine.template.tolerations: Equal needs a key, Exists takes no value",
            lambda part: part.key is not None if part.operator == "Equal" else part.value is None,
            ".operator",
        ),
        Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "engine.template.tolerations: tolerationSeconds needs effect NoExecute",
            lambda part: part.toleration_seconds is None or part.effect == "NoExecute",
            ".tolerationSeconds",
        ),
    )
    key: LabelKey | None = Field(None, description="Key of the taint; absent with Exists: every taint.")
    operator: Literal["Exists", "Equal"] = Field("Equal", description="Exists, or Equal to a value.")
    value: (
        Annotated[
            LabelValue, matching(LABEL_VALUE_PATTERN, "engine.template.tolerations: not the value of a label")
        ]
        | None
    ) = Field(None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Effect of the taint; absent: every effect."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        None, description="How long a NoExecute taint is tolerated."
    )


class TemplatePart(Part):
    """Where the pods may run, and what they are labeled."""

    labels: Annotated[
        dict[str, LabelValue],
        Field(max_length=16),
        *labels_rules("engine.template.labels"),
        Rule(
            "self.all(k, !k.startsWith('headrace.dev/') && !k.startsWith('app.kubernetes.io/'))",
            "engine.template.labels: headrace.dev/ and app.kubernetes.io/ are Headrace's to set",
            lambda labels: not any(key.startswith(RESERVED_LABEL_PREFIXES) for key in labels),
        ),
    ] = Field(default_factory=dict, description="Labels of the pods, such as those of a queue or a team.")
    node_selector: Annotated[
        dict[str, LabelValue], Field(max_length=16), *labels_rules("engine.template.nodeSelector")
    ] = Field(default_factory=dict, description="Labels that a node must have.")
    tolerations: Annotated[list[TolerationPart], Field(max_length=16)] = Field(
        default_factory=list, description="Taints that the pods tolerate."
    )
    priority_class_name: (
        Annotated[
            DnsName,
            Rule(
                "!self.startsWith('system-')",
                "engine.template.priorityClassName must not be a system class",
                lambda name: not name.startswith("system-"),
            ),
        ]
        | None
    ) = Field(None, description="PriorityClass of the pods.")
    affinity: AffinityPart | None = Field(None, description="Which nodes the pods go to.")
    topology_spread_constraints: Annotated[list[SpreadPart], Field(max_length=4), EACH_ONCE] = Field(
        default_factory=list, description="How evenly the service's pods lie over places."
    )
