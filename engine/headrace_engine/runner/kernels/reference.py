"""The kernels in plain torch; attention gathers a sequence's blocks, then calls torch's own once per row."""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.kernels import Activation, AttentionRule
from headrace_engine.runner.kv_cache import KVCache
from headrace_engine.runner.rope import Rotation, rotate


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

    def norm_heads(self, qkv: Tensor, query_weight: Tensor, key_weight: Tensor, eps: float) -> None:
        heads, kv_heads, width = self._num_heads, self._cache.shape.num_kv_heads, self._cache.shape.head_dim
        split = qkv.view(-1, heads + 2 * kv_heads, width)
        for part, weight in (
            (split[:, :heads], query_weight),
            (split[:, heads : heads + kv_heads], key_weight),
        ):
            part.copy_(functional.rms_norm(part, (width,), weight, eps))

    def gate(self, gate_up: Tensor, activation: Activation) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return (
            functional.silu(gate) if activation == "silu" else functional.gelu(gate, approximate="tanh")
        ) * up

    def attend(
        self, layer: int, qkv: Tensor, rotation: Rotation, batch: Batch, rule: AttentionRule
    ) -> Tensor:
        heads, kv_heads, width = self._num_heads, self._cache.shape.num_kv_heads, self._cache.shape.head_dim
        split = qkv.view(-1, heads + 2 * kv_heads, width)
        rotated = rotate(split[:, : heads + kv_heads], rotation.cosines[:, None], rotation.sines[:, None])
        query, key, value = rotated[:, :heads], rotated[:, heads:], split[:, heads + kv_heads :]
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        out = torch.empty_like(query)
        for row in range(batch.num_rows):
            tokens = slice(int(batch.query_starts[row]), int(batch.query_starts[row + 1]))
            context = int(batch.context_lengths[row])
            blocks = batch.block_tables[row].long()
            self._store(layer, key[tokens], value[tokens], blocks, context)
            used = blocks[: -(-context // self._cache.shape.block_size)]
            # In float32 sums hardly depend on how many tokens are computed together: a resumed request, whose
            # tokens are, says what it would have said.
            out[tokens] = _attend_row(
                query[tokens].float(),
                keys[used].permute(1, 0, 3, 2).flatten(1, 2)[:, :context].float(),
                values[used].transpose(0, 1).flatten(1, 2)[:, :context].float(),
                rule,
            )
        return out.flatten(1)

    def _store(self, layer: int, key: Tensor, value: Tensor, blocks: Tensor, context: int) -> None:
        size = self._cache.shape.block_size
        positions = torch.arange(context - len(key), context)
        block, offset = blocks[positions // size], positions % size
        self._cache.keys[layer][block, :, :, offset] = key
        self._cache.values[layer][block, :, offset] = value


def _attend_row(query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
    """`query` [new, heads, width] against `keys` and `values` [kv_heads, context, width].

    The query heads that share a KV head become query rows: no key is repeated.
    """
    new, heads, width = query.shape
    kv_heads, context, _ = keys.shape
    group = heads // kv_heads
    rows = query.reshape(new, kv_heads, group, width).permute(1, 2, 0, 3).flatten(1, 2)
    seen = _seen(new, context, rule.window)
    mask = None if seen is None else seen.repeat(group, 1)
    if rule.softcap is None:
        out = functional.scaled_dot_product_attention(
            rows[None], keys[None], values[None], attn_mask=mask, scale=rule.scale
        )
    else:
        scores = rule.softcap * torch.tanh(rows @ keys.mT * rule.scale / rule.softcap)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        out = scores.softmax(-1) @ values
    return out.view(kv_heads, group, new, width).permute(2, 0, 1, 3).reshape(new, heads, width)


def _seen(new: int, context: int, window: int | None) -> Tensor | None:
    """Which positions each of the last `new` tokens sees, [new, context]; None where each sees all."""
    if new == 1 and (window is None or window >= context):
        return None
    seen = torch.ones(new, context, dtype=torch.bool).tril(context - new)
    return seen if window is None else seen.triu(context - new - window + 1)
