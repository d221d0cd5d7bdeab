"""The InferenceService as users write it: the one source of the CRD, of its defaults and of its rules.

Descriptions are what `kubectl explain infs.spec` prints. Defaults stand in the schema and are seen after
apply. Values here are the user's text; `parsing.parse` turns them into seconds and ratios.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from headrace_operator.api.cross_rules import RULES
from headrace_operator.api.engine_resource import EnginePart
from headrace_operator.api.fields import Attainment, Duration, within
from headrace_operator.api.model_resource import ModelPart
from headrace_operator.api.network_resource import NetworkPart
from headrace_operator.api.rollout_resource import RolloutPart
from headrace_operator.api.rules import Part, of_defaults
from headrace_operator.api.scaling_resource import ScalingPart
from headrace_operator.api.tenants_resource import TenantsPart
from headrace_operator.api.tuning_resource import TuningPart


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
    e2e: Annotated[Duration, within("10ms", "6h", "slo.e2e")] | None = Field(
        None, alias="e2e", description="Most time from a request's arrival to its last token, such as 30s."
    )
    queue_deadline: Annotated[Duration, within("1ms", "1h", "slo.queueDeadline")] | None = Field(
        None,
        description="Most time that a request waits to be scheduled. Beyond it the request is refused "
        "with 429 and Retry-After, and counts as missed. Changing it replaces the pods.",
    )
    window: Annotated[Duration, within("10s", "1h", "slo.window")] = Field(
        "5m", description="Span of time over which latencies and attainment are judged."
    )


class SpecPart(Part):
    """What is asked for."""

    RULES: ClassVar = RULES
    model: ModelPart = Field(description="The model to serve.")
    engine: EnginePart = of_defaults(EnginePart, "How each replica runs.")
    slo: SloPart = of_defaults(SloPart, "What a good request is, and how many must be good.")
    scaling: ScalingPart = of_defaults(ScalingPart, "How many replicas there are, and who decides it.")
    tuning: TuningPart = of_defaults(TuningPart, "Whether the engine's limits are moved while it runs.")
    tenants: TenantsPart | None = Field(
        None,
        description="Who shares the service, and on which terms. Absent: everybody, as one. Running engines "
        "take a change of terms over at once, one of keys within about a minute.",
    )
    network: NetworkPart = of_defaults(NetworkPart, "Who may ask the service.")
    rollout: RolloutPart = of_defaults(RolloutPart, "How pods are replaced when the spec changes.")
    replicas: Annotated[int, Field(ge=0, le=1_000)] | None = Field(
        None,
        description="A number of replicas set by hand or through /scale. With scaling.mode Auto it pins the "
        "service until it is removed.",
    )
    paused: bool = Field(False, description="Freezes scaling and tuning; the service goes on serving.")
