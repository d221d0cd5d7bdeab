"""The steps of a layer that are not matrix products: norms, rotary positions with paged attention, SwiGLU.

`ReferenceKernels` is plain torch and defines what is right, on any device and in any floating type.
`NativeKernels` is a small C file compiled at first use, several times faster on CPU. Every backend is tested
against the reference.
"""

from typing import Protocol

from torch import Tensor

from headrace_engine.runner.batch import Batch


class Kernels(Protocol):
    """One backend, bound to a KV cache."""

    @property
    def name(self) -> str: ...

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        """Adds `delta` to the residual stream `x` in place, and returns the norm of the sum."""
        ...

    def attend(self, layer: int, qkv: Tensor, cosines: Tensor, sines: Tensor, batch: Batch) -> Tensor:
        """Rotates queries and keys, stores keys and values, attends causally to each row's whole context.

        `qkv` is [T, (heads + 2 * kv_heads) * head_dim], overwritten; the tables, [T, head_dim / 2], are those
        of the tokens' positions. Returns [T, heads * head_dim].
        """
        ...

    def swiglu(self, gate_up: Tensor) -> Tensor:
        """silu(gate) * up, [T, 2 * width] to [T, width]."""
        ...
