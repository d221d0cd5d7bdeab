"""One decision: what to do, why in words and numbers, and what was considered and not done."""

from dataclasses import dataclass, replace

from headrace_operator.api.status import Input, Rejection, Setting
from headrace_operator.api.vocabulary import Action, Bound, Reason

__all__ = ["Decision", "Input", "Rejection"]


@dataclass(frozen=True, slots=True)
class Decision:
    """`after` is what it leads to; of a Hold, what is in force anyway."""

    action: Action
    reason: Reason
    message: str
    after: Setting
    inputs: tuple[Input, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    limited_by: Bound | None = None
    """What keeps it from going further, or from being a change at all."""

    @property
    def is_change(self) -> bool:
        return self.action is not Action.HOLD

    @property
    def moves_replicas(self) -> bool:
        return self.action in {Action.SCALE_UP, Action.SCALE_DOWN}

    def explained(self, inputs: tuple[Input, ...], rejections: tuple[Rejection, ...]) -> "Decision":
        return replace(self, inputs=inputs, rejections=rejections)
