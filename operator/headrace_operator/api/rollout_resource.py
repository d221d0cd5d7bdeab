"""`spec.rollout`: how the pods of an older spec are replaced by those of a newer one."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace_operator.api.fields import Duration, within
from headrace_operator.api.rules import Part, Rule


class RolloutPart(Part):
    """How pods are replaced."""

    RULES: ClassVar = (
        Rule(
            "self.maxSurge > 0 || self.maxUnavailable > 0",
            "rollout.maxSurge and rollout.maxUnavailable must not both be 0: no pod could be replaced",
            lambda part: part.max_surge > 0 or part.max_unavailable > 0,
            ".maxSurge",
        ),
    )
    strategy: Literal["Auto", "RollingUpdate", "Recreate"] = Field(
        "Auto",
        description="RollingUpdate: maxSurge pods more first, maxUnavailable fewer meanwhile. Auto: the "
        "same, but where no node has a GPU for one pod more, one is drained and replaced at a time. "
        "Recreate: every pod is drained and gone before one of the new spec starts.",
    )
    max_surge: Annotated[int, Field(ge=0, le=100)] = Field(
        1, description="Most pods above the wanted number while pods are replaced. Not used by Recreate."
    )
    max_unavailable: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="Most pods below the wanted number while pods are replaced. Not used by Recreate."
    )
    progress_deadline: Annotated[Duration, within("30s", "6h", "rollout.progressDeadline")] | None = Field(
        None,
        description="How long a rollout may go without a pod of the new spec becoming ready before it has "
        "failed. engine.startupTimeout and five minutes where absent.",
    )
    rollback: bool = Field(
        True, description="A failed rollout goes back to the pods of the last spec that served."
    )
