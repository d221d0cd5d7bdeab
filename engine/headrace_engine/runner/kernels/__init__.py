"""The steps of a layer that are not matrix products: norms, rotary positions with paged attention, gates.

`ReferenceKernels` is plain torch and defines what is right, on any device and in any floating type.
`NativeKernels` is a small C file compiled at first use, several times faster on CPU. Every backend is tested
against the reference.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.rope import Rotation

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """How a layer scores keys, beside being causal."""

    scale: float
    """What products of queries and keys are multiplied with."""
    window: int | None = None
    """How many positions a token sees, itself included; None sees all before it."""
    softcap: float | None = None
    """Scores s become softcap * tanh(s / softcap)."""


class Kernels(Protocol):
    """One backend, bound to a KV cache."""

    @property
    def name(self) -> str: ...

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        """Adds `delta` to the residual stream `x` in place, and returns the norm of the sum."""
        ...

    def norm_heads(self, qkv: Tensor, query_weight: Tensor, key_weight: Tensor, eps: float) -> None:
        """Norms every query head and every key head by itself, in place; the weights are [head_dim]."""
        ...

    def attend(
        self, layer: int, qkv: Tensor, rotation: Rotation, batch: Batch, rule: AttentionRule
    ) -> Tensor:
        """Rotates queries and keys, stores keys and values, attends causally to each row's context.

        `qkv` is [T, (heads + 2 * kv_heads) * head_dim], overwritten; `rotation` is that of the tokens'
        positions. Returns [T, heads * head_dim].
        """
        ...

    def gate(self, gate_up: Tensor, activation: Activation) -> Tensor:
        """activation(gate) * up, [T, 2 * width] to [T, width]."""
        ...
