"""`spec.engine`: how each replica runs. No pod template, volume, command or free map passes through it."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints

from headrace_operator.api.fields import (
    LABEL_KEY_PATTERN,
    LABEL_VALUE_PATTERN,
    DnsName,
    Duration,
    Image,
    LabelValue,
    Quantity,
    Sequences,
    Tokens,
    matching,
    within,
)
from headrace_operator.api.rules import Part, Rule, of_defaults
from headrace_operator.api.units import quantity

LabelKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=253),
    matching(LABEL_KEY_PATTERN, "engine.template: not the key of a label"),
]


class GpuPart(Part):
    """The GPUs of one replica."""

    count: Annotated[int, Field(ge=1, le=1)] = Field(
        1, description="GPUs of one replica, as the resource nvidia.com/gpu. One is what an engine can use."
    )


class ResourceListPart(Part):
    """Amounts, as Kubernetes quantities."""

    model_config = ConfigDict(serialize_by_alias=True)
    cpu: Quantity | None = Field(None, description="CPU, such as 500m or 2.")
    memory: Quantity | None = Field(None, description="Memory, such as 4Gi.")
    ephemeral_storage: Quantity | None = Field(
        None, alias="ephemeral-storage", description="Local disk, such as 10Gi."
    )


def _at_most_limit(cel_name: str, attribute: str, name: str) -> Rule:
    def holds(part: "ResourcesPart") -> bool:
        request, limit = getattr(part.requests, attribute), getattr(part.limits, attribute)
        if request is None or limit is None:
            return True
        low, high = quantity(request), quantity(limit)
        return low is None or high is None or low <= high

    request, limit = f"self.requests.{cel_name}", f"self.limits.{cel_name}"
    return Rule(
        f"!has({request}) || !has({limit}) || "
        f"!quantity(string({request})).isGreaterThan(quantity(string({limit})))",
        f"engine.resources.requests.{name} must not be above its limit",
        holds,
        ".requests",
    )


class ResourcesPart(Part):
    """Requests and limits of the engine's container."""

    RULES: ClassVar = (_at_most_limit("cpu", "cpu", "cpu"), _at_most_limit("memory", "memory", "memory"))
    requests: ResourceListPart = of_defaults(ResourceListPart, "What the scheduler sets aside.")
    limits: ResourceListPart = of_defaults(ResourceListPart, "What must not be exceeded.")


class EngineLimitsPart(Part):
    """What an engine provides for when it starts. Changing it replaces the pods; tuning moves below it."""

    RULES: ClassVar = (
        Rule(
            "self.maxNumBatchedTokens >= self.maxNumSeqs",
            "engine.limits.maxNumBatchedTokens must be at least engine.limits.maxNumSeqs",
            lambda part: part.max_num_batched_tokens >= part.max_num_seqs,
            ".maxNumBatchedTokens",
        ),
    )
    max_num_seqs: Sequences = Field(256, description="Most sequences that run at once in a pod.")
    max_num_batched_tokens: Tokens = Field(8192, description="Most tokens that one step computes.")
    max_model_len: Tokens | None = Field(
        None, description="Longest prompt and answer together, in tokens. The model's own where absent."
    )


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
    """Where the pods may run."""

    node_selector: Annotated[
        dict[str, LabelValue],
        Field(max_length=16),
        Rule(
            f"self.all(k, size(k) <= 253 && k.matches('{LABEL_KEY_PATTERN}'))",
            "engine.template.nodeSelector: a key is not the key of a label",
            lambda labels: all(matching(LABEL_KEY_PATTERN, "").holds(key) for key in labels),
        ),
        Rule(
            f"self.all(k, self[k].matches('{LABEL_VALUE_PATTERN}'))",
            "engine.template.nodeSelector: a value is not the value of a label",
            lambda labels: all(matching(LABEL_VALUE_PATTERN, "").holds(value) for value in labels.values()),
        ),
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


class EnginePart(Part):
    """How each replica runs."""

    runtime: Literal["headrace", "vllm"] = Field(
        "headrace", description="The engine. vllm is accepted but not served yet: condition Accepted says so."
    )
    image: Image | None = Field(None, description="Image of the engine. The operator's default where absent.")
    runtime_class_name: DnsName | None = Field(None, description="RuntimeClass of the pods.")
    gpu: GpuPart | None = Field(
        None, description="GPUs of one replica. Absent: the engine computes on the CPU."
    )
    threads: Annotated[int, Field(ge=1, le=256)] | None = Field(
        None, description="CPU threads that the engine computes with. Its own choice where absent."
    )
    resources: ResourcesPart = of_defaults(ResourcesPart, "Requests and limits of the engine's container.")
    limits: EngineLimitsPart = of_defaults(
        EngineLimitsPart,
        "Start-up capacity of each pod. Changing it replaces the pods; tuning moves below it.",
    )
    drain_timeout: Annotated[Duration, within("1s", "1h", "engine.drainTimeout")] = Field(
        "120s",
        description="How long a pod that is removed goes on serving what it has. Sets its grace period.",
    )
    startup_timeout: Annotated[Duration, within("10s", "2h", "engine.startupTimeout")] = Field(
        "15m", description="How long a pod may take to load the model."
    )
    template: TemplatePart = of_defaults(TemplatePart, "Where the pods may run.")
