"""Paged keys and values, and how many pages fit.

Layout, per layer (K is transposed inside a block, so that one vector load brings the same channel of 16
positions):

    keys   [block, kv_head, head_dim, position in block]
    values [block, kv_head, position in block, head_dim]

Position p of a request is in block `block_table[p // block_size]` at `p % block_size`. Memory starts as
untouched zeros: what is never used costs nothing, and what a kernel reads past a sequence's end is finite.
"""

import math
import mmap
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace_engine.runner.errors import ModelLoadError

_MIB = 1 << 20
_SHARE_OF_AVAILABLE = 0.6
"""The rest is left to activations, to the tokenizer and to whatever else runs in the pod."""


@dataclass(frozen=True, slots=True)
class KVShape:
    """What one block holds."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    block_size: int
    dtype: torch.dtype

    @property
    def block_bytes(self) -> int:
        per_token = 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.dtype.itemsize
        return per_token * self.block_size


class KVCache:
    """All layers' blocks, allocated once."""

    def __init__(self, shape: KVShape, num_blocks: int) -> None:
        layers, heads, width, size = shape.num_layers, shape.num_kv_heads, shape.head_dim, shape.block_size
        self.shape = shape
        self.num_blocks = num_blocks
        self.keys = _untouched_zeros((layers, num_blocks, heads, width, size), shape.dtype)
        self.values = _untouched_zeros((layers, num_blocks, heads, size, width), shape.dtype)


def _untouched_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    buffer = mmap.mmap(-1, math.prod(shape) * dtype.itemsize)
    return torch.frombuffer(buffer, dtype=dtype).view(shape)


def fit_blocks(
    shape: KVShape,
    *,
    max_model_len: int,
    max_num_seqs: int,
    available_bytes: int,
    memory_bytes: int | None = None,
    num_blocks: int | None = None,
) -> int:
    """How many blocks to allocate.

    `num_blocks` decides alone; else `memory_bytes` is the budget; else every sequence may reach its full
    length at once, as far as a share of the available memory allows.

    Raises:
        ModelLoadError: not even one sequence of `max_model_len` tokens fits; the message holds the budget.
    """
    per_sequence = -(-max_model_len // shape.block_size)
    bound = "the memory limit"
    if num_blocks is not None:
        bound = "--num-gpu-blocks-override"
    elif memory_bytes is not None:
        bound = "--kv-cache-memory-bytes"
    if num_blocks is None:
        budget_bytes = (
            memory_bytes if memory_bytes is not None else int(available_bytes * _SHARE_OF_AVAILABLE)
        )
        num_blocks = budget_bytes // shape.block_bytes
        if memory_bytes is None:
            num_blocks = min(num_blocks, per_sequence * max_num_seqs)
    wanted_bytes = num_blocks * shape.block_bytes
    if wanted_bytes > available_bytes:
        raise ModelLoadError(
            f"the KV cache asks for {wanted_bytes // _MIB} MiB and {available_bytes // _MIB} MiB are there: "
            "lower --kv-cache-memory-bytes or --num-gpu-blocks-override, or raise the memory limit"
        )
    if num_blocks < per_sequence:
        raise ModelLoadError(
            f"the KV cache holds {num_blocks * shape.block_size} tokens ({wanted_bytes // _MIB} MiB of "
            f"{available_bytes // _MIB} MiB available) and one sequence may take {max_model_len} tokens "
            f"({per_sequence * shape.block_bytes // _MIB} MiB): raise {bound}"
            + (f", or lower --max-model-len to at most {num_blocks * shape.block_size}" if num_blocks else "")
        )
    return num_blocks
