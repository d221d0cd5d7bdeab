"""What every block of a model shares during one step."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.kernels import Kernels
from headrace_engine.runner.rope import RotaryTables, Rotation


@dataclass(frozen=True, slots=True)
class Step:
    """The batch, who computes it, and the angles of its tokens by each table that some layer uses."""

    batch: Batch
    kernels: Kernels
    rotations: Mapping[RotaryTables, Rotation]
