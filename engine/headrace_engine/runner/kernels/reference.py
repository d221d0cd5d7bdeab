"""The kernels in plain torch; attention gathers a sequence's blocks, then calls torch's own once per row."""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.kv_cache import KVCache
from headrace_engine.runner.rope import rotate


class ReferenceKernels:
    """Defines what the other backends must compute."""

    name: Final = "torch"

    def __init__(self, cache: KVCache, num_heads: int) -> None:
        self._cache = cache
        self._num_heads = num_heads

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        if delta is not None:
            x += delta
        return functional.rms_norm(x, (x.shape[-1],), weight, eps)

    def swiglu(self, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return functional.silu(gate) * up

    def attend(self, layer: int, qkv: Tensor, cosines: Tensor, sines: Tensor, batch: Batch) -> Tensor:
        heads, kv_heads, width = self._num_heads, self._cache.shape.num_kv_heads, self._cache.shape.head_dim
        split = qkv.view(-1, heads + 2 * kv_heads, width)
        rotated = rotate(split[:, : heads + kv_heads], cosines[:, None], sines[:, None])
        query, key, value = rotated[:, :heads], rotated[:, heads:], split[:, heads + kv_heads :]
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        out = torch.empty_like(query)
        for row in range(batch.num_rows):
            tokens = slice(int(batch.query_starts[row]), int(batch.query_starts[row + 1]))
            context = int(batch.context_lengths[row])
            blocks = batch.block_tables[row].long()
            self._store(layer, key[tokens], value[tokens], blocks, context)
            used = blocks[: -(-context // self._cache.shape.block_size)]
            out[tokens] = _attend_row(
                query[tokens],
                keys[used].permute(1, 0, 3, 2).flatten(1, 2)[:, :context],
                values[used].transpose(0, 1).flatten(1, 2)[:, :context],
            )
        return out.flatten(1)

    def _store(self, layer: int, key: Tensor, value: Tensor, blocks: Tensor, context: int) -> None:
        size = self._cache.shape.block_size
        positions = torch.arange(context - len(key), context)
        block, offset = blocks[positions // size], positions % size
        self._cache.keys[layer][block, :, :, offset] = key
        self._cache.values[layer][block, :, offset] = value


def _attend_row(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """`query` [new, heads, width] against `keys` and `values` [kv_heads, context, width].

    The query heads that share a KV head become query rows: no key is repeated.
    """
    new, heads, width = query.shape
    kv_heads, context, _ = keys.shape
    group = heads // kv_heads
    rows = query.reshape(new, kv_heads, group, width).permute(1, 2, 0, 3).flatten(1, 2)
    mask = None
    if new > 1:
        mask = torch.ones(new, context, dtype=torch.bool).tril(context - new).repeat(group, 1)
    out = functional.scaled_dot_product_attention(rows[None], keys[None], values[None], attn_mask=mask)
    return out.view(kv_heads, group, new, width).permute(2, 0, 1, 3).reshape(new, heads, width)
