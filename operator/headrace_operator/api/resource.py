"""The InferenceService as users write it: the one source of the CRD, of its defaults and of its rules.

Descriptions are what `kubectl explain infs.spec` prints. Defaults stand in the schema and are seen after
apply. Values here are the user's text; `parsing.parse` turns them into seconds and ratios.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace_operator.api.engine_resource import EnginePart
from headrace_operator.api.fields import (
    Attainment,
    Duration,
    ModelUri,
    Replicas,
    Revision,
    Sequences,
    ServedName,
    Tokens,
    within,
)
from headrace_operator.api.rollout_resource import RolloutPart
from headrace_operator.api.rules import Part, Rule, of_defaults
from headrace_operator.api.units import duration_s


class ModelPart(Part):
    """The model to serve."""

    RULES: ClassVar = (
        Rule(
            "!has(self.revision) || self.uri.startsWith('hf://')",
            "model.revision is taken with an hf:// uri only",
            lambda part: part.revision is None or part.uri.startswith("hf://"),
            ".revision",
        ),
    )
    uri: ModelUri = Field(
        description="Where the weights are: hf://ORG/NAME, pvc://CLAIM/DIRECTORY (mounted read-only) or "
        "file:///DIRECTORY inside the engine's image. Changing it replaces the pods."
    )
    revision: Revision | None = Field(None, description="Branch, tag or commit of an hf:// model.")
    served_name: ServedName | None = Field(
        None, description="The `model` value of the OpenAI API. The name of the object where it is absent."
    )


class SloPart(Part):
    """What a good request is, and how many must be good."""

    attainment: Attainment = Field(
        "0.95", description="Share of requests that must meet every target below, as a decimal string."
    )
    ttft: Annotated[Duration, within("1ms", "1h", "slo.ttft")] | None = Field(
        None, description="Most time from a request's arrival to its first token, such as 500ms."
    )
    itl: Annotated[Duration, within("1ms", "1m", "slo.itl")] | None = Field(
        None, description="Most time between two tokens of a request, in its mean, such as 50ms."
    )
    queue_deadline: Annotated[Duration, within("1ms", "1h", "slo.queueDeadline")] | None = Field(
        None,
        description="Most time that a request waits to be scheduled. Beyond it the request is refused "
        "with 429 and Retry-After, and counts as missed. Changing it replaces the pods.",
    )
    window: Annotated[Duration, within("10s", "1h", "slo.window")] = Field(
        "5m", description="Span of time over which latencies and attainment are judged."
    )


class ScaleUpPart(Part):
    """When a replica is added."""

    stabilization: Annotated[Duration, within("0s", "1h", "scaling.scaleUp.stabilization")] = Field(
        "30s", description="How long the overload must last before a replica is added."
    )


class ScaleDownPart(Part):
    """When a replica is removed."""

    stabilization: Annotated[Duration, within("0s", "24h", "scaling.scaleDown.stabilization")] = Field(
        "5m", description="How long one replica less must have been enough before one is drained and removed."
    )


class ScalingPart(Part):
    """How many replicas there are, and who decides it."""

    RULES: ClassVar = (
        Rule(
            "!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "scaling.minReplicas must not be above scaling.maxReplicas",
            lambda part: part.max_replicas is None or part.min_replicas <= part.max_replicas,
            ".minReplicas",
        ),
        Rule(
            "!(self.mode in ['Auto', 'Recommend']) || has(self.maxReplicas)",
            "scaling.maxReplicas is required with scaling.mode Auto or Recommend",
            lambda part: part.mode not in {"Auto", "Recommend"} or part.max_replicas is not None,
            ".maxReplicas",
        ),
    )
    mode: Literal["Auto", "Recommend", "Fixed", "External"] = Field(
        "Fixed",
        description="Auto: Headrace adds and removes replicas. Recommend: it decides the same, writes it to "
        "status and touches nothing. Fixed: spec.replicas, or minReplicas. External: another autoscaler sets "
        "spec.replicas through /scale.",
    )
    min_replicas: Replicas = Field(1, description="Fewest replicas.")
    max_replicas: Replicas | None = Field(
        None, description="Most replicas. Required with Auto and Recommend."
    )
    scale_up: ScaleUpPart = of_defaults(ScaleUpPart, "When a replica is added.")
    scale_down: ScaleDownPart = of_defaults(ScaleDownPart, "When a replica is removed.")


def _ordered(unit: str) -> tuple[Rule]:
    return (
        Rule(
            "!has(self.min) || !has(self.max) || self.min <= self.max",
            f"tuning.bounds.{unit}.min must not be above its max",
            lambda part: part.min is None or part.max is None or part.min <= part.max,
            ".min",
        ),
    )


class SequenceBoundsPart(Part):
    """Between which values maxNumSeqs is tuned."""

    RULES: ClassVar = _ordered("maxNumSeqs")
    min: Sequences | None = Field(
        None, description="Lowest value. 8 where absent, or engine.limits if lower."
    )
    max: Sequences | None = Field(None, description="Highest value. That of engine.limits where absent.")


class TokenBoundsPart(Part):
    """Between which values maxNumBatchedTokens is tuned."""

    RULES: ClassVar = _ordered("maxNumBatchedTokens")
    min: Tokens | None = Field(None, description="Lowest value. 512 where absent, or engine.limits if lower.")
    max: Tokens | None = Field(None, description="Highest value. That of engine.limits where absent.")


class BoundsPart(Part):
    """Within which values the limits are tuned; never above engine.limits."""

    max_num_seqs: SequenceBoundsPart = of_defaults(
        SequenceBoundsPart, "Bounds of the sequences that run at once in a pod."
    )
    max_num_batched_tokens: TokenBoundsPart = of_defaults(
        TokenBoundsPart, "Bounds of the tokens that a step computes."
    )


class TuningPart(Part):
    """Whether the engine's scheduler limits are moved while it runs."""

    mode: Literal["Off", "Recommend", "Auto"] = Field(
        "Recommend",
        description="Auto: Headrace moves the limits of running pods, without a restart. Recommend: it "
        "decides the same, writes it to status and touches nothing. Off: the limits stay at engine.limits.",
    )
    bounds: BoundsPart = of_defaults(BoundsPart, "Within which values the limits are tuned.")
    interval: Annotated[Duration, within("5s", "1h", "tuning.interval")] = Field(
        "60s", description="Least time between two changes, in which the first is judged."
    )
    max_change_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        25, description="Most that one change moves a limit, in percent of what is in use."
    )


_HAS_TARGET = "(has(self.slo.ttft) || has(self.slo.itl) || has(self.slo.queueDeadline))"


def _has_target(spec: "SpecPart") -> bool:
    return any(target is not None for target in (spec.slo.ttft, spec.slo.itl, spec.slo.queue_deadline))


def _bounded(limit: str, end: str, attribute: str) -> Rule:
    path = f"self.tuning.bounds.{limit}"
    return Rule(
        f"!has({path}.{end}) || {path}.{end} <= self.engine.limits.{limit}",
        f"tuning.bounds.{limit}.{end} must not be above engine.limits.{limit}",
        lambda spec: (
            (bound := getattr(getattr(spec.tuning.bounds, attribute), end)) is None
            or bound <= getattr(spec.engine.limits, attribute)
        ),
        f".tuning.bounds.{limit}.{end}",
    )


class SpecPart(Part):
    """What is asked for."""

    RULES: ClassVar = (
        Rule(
            f"!(self.scaling.mode in ['Auto', 'Recommend']) || {_HAS_TARGET}",
            "slo needs at least one of ttft, itl and queueDeadline with scaling.mode Auto or Recommend",
            lambda spec: spec.scaling.mode not in {"Auto", "Recommend"} or _has_target(spec),
            ".slo",
        ),
        Rule(
            f"self.tuning.mode != 'Auto' || {_HAS_TARGET}",
            "slo needs at least one of ttft, itl and queueDeadline with tuning.mode Auto",
            lambda spec: spec.tuning.mode != "Auto" or _has_target(spec),
            ".slo",
        ),
        *(
            _bounded(limit, end, attribute)
            for limit, attribute in (
                ("maxNumSeqs", "max_num_seqs"),
                ("maxNumBatchedTokens", "max_num_batched_tokens"),
            )
            for end in ("min", "max")
        ),
        Rule(
            "!has(self.rollout.progressDeadline) || "
            "duration(self.rollout.progressDeadline) >= duration(self.engine.startupTimeout)",
            "rollout.progressDeadline must not be below engine.startupTimeout",
            lambda spec: (
                spec.rollout.progress_deadline is None
                or duration_s(spec.rollout.progress_deadline) >= duration_s(spec.engine.startup_timeout)
            ),
            ".rollout.progressDeadline",
        ),
    )
    model: ModelPart = Field(description="The model to serve.")
    engine: EnginePart = of_defaults(EnginePart, "How each replica runs.")
    slo: SloPart = of_defaults(SloPart, "What a good request is, and how many must be good.")
    scaling: ScalingPart = of_defaults(ScalingPart, "How many replicas there are, and who decides it.")
    tuning: TuningPart = of_defaults(TuningPart, "Whether the engine's limits are moved while it runs.")
    rollout: RolloutPart = of_defaults(RolloutPart, "How pods are replaced when the spec changes.")
    replicas: Annotated[int, Field(ge=0, le=1_000)] | None = Field(
        None,
        description="A number of replicas set by hand or through /scale. With scaling.mode Auto it pins the "
        "service until it is removed.",
    )
    paused: bool = Field(False, description="Freezes scaling and tuning; the service goes on serving.")
