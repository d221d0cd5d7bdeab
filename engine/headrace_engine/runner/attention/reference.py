"""Attention in plain torch: gather a sequence's blocks, then one `scaled_dot_product_attention` per row."""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.kv_cache import KVCache


class ReferenceAttention:
    """Defines what the other backends must compute. Runs on any device and in any floating type."""

    name: Final = "torch"

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, batch: Batch) -> Tensor:
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        out = torch.empty_like(query)
        for row, table in enumerate(batch.block_tables):
            begin, end = batch.query_starts[row], batch.query_starts[row + 1]
            context = int(batch.context_lengths[row])
            blocks = torch.from_numpy(table)
            self._store(keys, values, key[begin:end], value[begin:end], blocks, context)
            count = -(-context // self._cache.shape.block_size)
            out[begin:end] = _attend_row(
                query[begin:end],
                keys[blocks[:count]].permute(1, 0, 3, 2).flatten(1, 2)[:, :context],
                values[blocks[:count]].transpose(0, 1).flatten(1, 2)[:, :context],
            )
        return out.flatten(1)

    def _store(
        self, keys: Tensor, values: Tensor, key: Tensor, value: Tensor, blocks: Tensor, context: int
    ) -> None:
        size = self._cache.shape.block_size
        positions = torch.arange(context - len(key), context)
        block, offset = blocks[positions // size].long(), positions % size
        keys[block, :, :, offset] = key
        values[block, :, offset] = value


def _attend_row(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """`query` [new, heads, width] against `keys`, `values` [kv_heads, context, width].

    The query heads that share a KV head become query rows: no key is repeated.
    """
    new, heads, width = query.shape
    kv_heads, context, _ = keys.shape
    group = heads // kv_heads
    rows = (
        query.view(new, kv_heads, group, width).permute(1, 2, 0, 3).reshape(1, kv_heads, group * new, width)
    )
    mask = None
    if new > 1:
        visible = torch.ones(new, context, dtype=torch.bool).tril(context - new)
        mask = visible.repeat(group, 1)
    out = functional.scaled_dot_product_attention(rows, keys[None], values[None], attn_mask=mask)
    return out.view(kv_heads, group, new, width).permute(2, 0, 1, 3).reshape(new, heads, width)
