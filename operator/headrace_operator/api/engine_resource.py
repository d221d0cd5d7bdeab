"""`spec.engine`: how each replica runs. No pod template, volume, command or free map passes through it."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from headrace_operator.api.engine_arguments import Arguments, Variables
from headrace_operator.api.fields import (
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
from headrace_operator.api.names import GPU_CLASS_LABEL
from headrace_operator.api.placement_resource import TemplatePart
from headrace_operator.api.rules import Part, Rule, of_defaults
from headrace_operator.api.units import quantity


class GpuPart(Part):
    """The GPUs of one replica."""

    RULES: ClassVar = (
        Rule(
            "!has(self.tensorParallel) || self.tensorParallel <= self.count",
            "engine.gpu.tensorParallel must not be above engine.gpu.count",
            lambda part: part.tensor_parallel is None or part.tensor_parallel <= part.count,
            ".tensorParallel",
        ),
    )
    count: Annotated[int, Field(ge=1, le=16)] = Field(
        1,
        description="GPUs of one replica, as the resource nvidia.com/gpu. More than one takes runtime vllm.",
    )
    gpu_class: (
        Annotated[LabelValue, matching(LABEL_VALUE_PATTERN, "engine.gpu.class: not the value of a label")]
        | None
    ) = Field(
        None,
        alias="class",
        description=f"What a node's label {GPU_CLASS_LABEL} must say, such as NVIDIA-H100-80GB-HBM3.",
    )
    tensor_parallel: Annotated[int, Field(ge=1, le=16)] | None = Field(
        None, description="GPUs over which one model is split. engine.gpu.count where absent."
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


def _vllm_has(cel: str, message: str, holds: Callable[["EnginePart"], bool], path: str) -> Rule:
    return Rule(
        f"self.runtime != 'vllm' || {cel}",
        message,
        lambda part: part.runtime != "vllm" or holds(part),
        path,
    )


class EnginePart(Part):
    """How each replica runs."""

    RULES: ClassVar = (
        Rule(
            "self.runtime == 'vllm' || !has(self.gpu) || self.gpu.count == 1",
            "engine.gpu.count above 1 takes engine.runtime vllm",
            lambda part: part.runtime == "vllm" or part.gpu is None or part.gpu.count == 1,
            ".gpu.count",
        ),
        Rule(
            "!has(self.gpu) || !has(self.gpu.class) || !has(self.template.nodeSelector) || "
            f"!('{GPU_CLASS_LABEL}' in self.template.nodeSelector)",
            f"engine.template.nodeSelector must not hold {GPU_CLASS_LABEL} beside engine.gpu.class",
            lambda part: (
                part.gpu is None
                or part.gpu.gpu_class is None
                or GPU_CLASS_LABEL not in part.template.node_selector
            ),
            ".template.nodeSelector",
        ),
        _vllm_has(
            "has(self.image)",
            "engine.image is required with engine.runtime vllm: the operator's default is Headrace's engine",
            lambda part: part.image is not None,
            ".image",
        ),
        _vllm_has(
            "!has(self.threads)",
            "engine.threads is taken with engine.runtime headrace only",
            lambda part: part.threads is None,
            ".threads",
        ),
    )
    runtime: Literal["headrace", "vllm"] = Field(
        "headrace",
        description="The engine. With vllm limits do not move while it serves: tuning recommends, and a "
        "change of engine.limits replaces the pods.",
    )
    image: Image | None = Field(
        None, description="Image of the engine. The operator's default where absent; required with vllm."
    )
    image_pull_secrets: Annotated[list[DnsName], Field(max_length=8)] = Field(
        default_factory=list, description="Secrets of the service's namespace that the image is pulled with."
    )
    args: Arguments = Field(
        default_factory=list,
        description="Flags to add to the engine's own, as --flag=VALUE or as two items. Those that Headrace "
        "sets are refused.",
    )
    env: Variables = Field(default_factory=list, description="Variables to add to the engine's environment.")
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
    template: TemplatePart = of_defaults(TemplatePart, "Where the pods may run, and what they are labeled.")
