"""`spec.scaling`: how many replicas there are, and who decides it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace_operator.api.fields import Duration, Ratio, Replicas, ratio_within, within
from headrace_operator.api.rules import Part, Rule, of_defaults


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
    headroom: Annotated[Ratio, ratio_within(0.15, 0.9, "scaling.headroom")] = Field(
        "0.3",
        description="Share of each limit that must be left on the remaining replicas before one is removed, "
        "as a decimal string.",
    )
    gpu_budget: Annotated[int, Field(ge=1, le=16_000)] | None = Field(
        None, description="Most GPUs that the service may hold, all replicas together."
    )
    scale_up: ScaleUpPart = of_defaults(ScaleUpPart, "When a replica is added.")
    scale_down: ScaleDownPart = of_defaults(ScaleDownPart, "When a replica is removed.")
