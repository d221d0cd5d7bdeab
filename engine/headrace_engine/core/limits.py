"""Capacity, fixed when the engine starts, and the active limits that move inside it while it runs."""

from dataclasses import dataclass, fields, replace
from typing import Any


class LimitsError(ValueError):
    """A limit outside its bounds; `name` is the field, the message says which values are taken."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Capacity:
    """What start-up provided for: buffers, blocks, graphs. Changing it takes a restart."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    num_blocks: int
    block_size: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The active limits, read at the start of every step.

    Lowering one drains down to it; nothing that runs is killed.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill_token_threshold: int = 0
    """Most prompt tokens of one request in one step; 0 is no cap but the budget."""
    max_num_partial_prefills: int = 0
    """Most prefills in one step that do not reach their end in it; 0 is no cap."""
    max_step_ms: int = 0
    """Predicted time of a step that prefills keep within; 0 is no cap."""
    max_step_keys: int = 0
    """Most step keys, such as adapters, running together; 0 is no cap."""
    max_num_queued_reqs: int = 1024
    max_num_queued_tokens: int = 1_048_576

    @classmethod
    def of(cls, capacity: Capacity) -> "Limits":
        """The widest limits that a capacity holds."""
        return cls(capacity.max_num_seqs, capacity.max_num_batched_tokens)

    def changed(self, changes: dict[str, Any], capacity: Capacity) -> "Limits":
        """These limits with `changes`, all or nothing.

        Raises:
            LimitsError: an unknown name, a value that is no integer, or one outside [least, capacity].
        """
        names = {entry.name for entry in fields(self)}
        for name in changes:
            if name not in names:
                raise LimitsError(name, f"is no limit; the limits are {', '.join(sorted(names))}")
        changed = replace(self, **changes)
        changed.validate(capacity)
        return changed

    def validate(self, capacity: Capacity) -> None:
        """Raise `LimitsError` for the first limit that is no integer or outside [least, capacity]."""
        for entry in fields(self):
            name, value = entry.name, getattr(self, entry.name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise LimitsError(name, "takes an integer")
            low, high = int(hasattr(capacity, name)), getattr(capacity, name, 2**31 - 1)
            if not low <= value <= high:
                which = ", the capacity that this engine started with" if hasattr(capacity, name) else ""
                raise LimitsError(name, f"takes {low} to {high}{which}")
