"""`spec.tuning`: whether, how far and how fast the engine's scheduler limits move while it runs."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace_operator.api.fields import Duration, Ratio, Sequences, Tokens, ratio_within, within
from headrace_operator.api.rules import Part, Rule, of_defaults


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


class RollbackPart(Part):
    """When a change of limits is taken back."""

    attainment_drop: Annotated[Ratio, ratio_within(0.001, 0.5, "tuning.rollbackOn.attainmentDrop")] = Field(
        "0.02",
        description="A change after which attainment is so much lower, at no more load, is taken back and "
        "not tried again for 60 intervals. As a decimal string.",
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
    rollback_on: RollbackPart = of_defaults(RollbackPart, "When a change of limits is taken back.")
