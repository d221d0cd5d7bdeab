"""Attention over paged keys and values.

`ReferenceAttention` is plain torch and defines what is right; the others are faster and are tested against it.
"""

from typing import Protocol

from torch import Tensor

from headrace_engine.runner.batch import Batch


class Attention(Protocol):
    """One attention backend, bound to a KV cache."""

    name: str

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, batch: Batch) -> Tensor:
        """Stores the step's keys and values, then attends causally to every row's whole context.

        `query` is [T, heads, head_dim], `key` and `value` are [T, kv_heads, head_dim]; returns [T, heads * head_dim].
        """
        ...
