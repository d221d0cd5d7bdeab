"""One decision: what to do, why in words and numbers, and what was considered and not done."""

from dataclasses import dataclass, replace

from headrace_operator.api.status import Setting
from headrace_operator.api.vocabulary import Action, Reason


@dataclass(frozen=True, slots=True)
class Input:
    """A measured number, as text with its unit, and what it is held against."""

    name: str
    value: str
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """An action that was considered: why it is not taken."""

    action: Action
    word: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """`after` is what it leads to; of a Hold, what is in force anyway."""

    action: Action
    reason: Reason
    message: str
    after: Setting
    inputs: tuple[Input, ...] = ()
    rejections: tuple[Rejection, ...] = ()

    @property
    def is_change(self) -> bool:
        return self.action is not Action.HOLD

    @property
    def moves_replicas(self) -> bool:
        return self.action in {Action.SCALE_UP, Action.SCALE_DOWN}

    def explained(self, inputs: tuple[Input, ...], rejections: tuple[Rejection, ...]) -> "Decision":
        return replace(self, inputs=inputs, rejections=rejections)
