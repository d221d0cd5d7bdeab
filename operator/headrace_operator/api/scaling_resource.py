"""`spec.scaling`: how many replicas there are, and who decides it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace_operator.api.fields import Duration, Ratio, Replicas, ratio_within, within
from headrace_operator.api.rules import Part, Rule, of_defaults

StepPods = Annotated[int, Field(ge=1, le=1_000)]


class ScaleUpPart(Part):
    """When replicas are added, and how many at a time."""

    stabilization: Annotated[Duration, within("0s", "1h", "scaling.scaleUp.stabilization")] = Field(
        "30s", description="How long the overload must last before replicas are added."
    )
    max_step_pods: StepPods = Field(
        4, description="Most replicas that one step adds, where maxStepPercent does not allow more."
    )
    max_step_percent: Annotated[int, Field(ge=0, le=1_000)] = Field(
        100,
        description="Most that one step adds in percent of the replicas there are, where maxStepPods does "
        "not allow more. 0: maxStepPods alone counts.",
    )


class ScaleDownPart(Part):
    """When replicas are removed, how many at a time and how often."""

    stabilization: Annotated[Duration, within("0s", "24h", "scaling.scaleDown.stabilization")] = Field(
        "5m",
        description="How long fewer replicas must have been enough before one is drained and removed. The "
        "most that were needed in this time stay.",
    )
    max_step_pods: StepPods = Field(1, description="Most replicas that are removed in one period.")
    period: Annotated[Duration, within("0s", "24h", "scaling.scaleDown.period")] = Field(
        "2m", description="Least time between two removals."
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
    headroom: Annotated[Ratio, ratio_within(0.15, 0.9, "scaling.headroom")] = Field(
        "0.3",
        description="Share of each limit that must be left on the remaining replicas before one is removed, "
        "as a decimal string.",
    )
    gpu_budget: Annotated[int, Field(ge=1, le=16_000)] | None = Field(
        None, description="Most GPUs that the service may hold, all replicas together."
    )
    scale_up: ScaleUpPart = of_defaults(ScaleUpPart, "When replicas are added, and how many at a time.")
    scale_down: ScaleDownPart = of_defaults(
        ScaleDownPart, "When replicas are removed, how many at a time and how often."
    )
