"""The kernels in plain torch; attention gathers a sequence's blocks, then calls torch's own once per tile.

A library adds up in an order that depends on shapes. Tiles begin at fixed positions of the sequence and are
filled up with zeros, so that a token's shapes follow from its position alone: it is computed the same to the
last bit however its prompt is cut.
"""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.kernels import Activation, AttentionRule
from headrace_engine.runner.kv_cache import KVCache
from headrace_engine.runner.rope import Rotation, rotate

_TILE = 8
"""Positions. A decode computes as many queries to keep one; a prompt makes a call for each so many."""


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
            out[tokens] = _attend_row(
                query[tokens].transpose(0, 1),
                keys[used].permute(1, 0, 3, 2).flatten(1, 2)[:, :context],
                values[used].transpose(0, 1).flatten(1, 2)[:, :context],
                rule,
            ).transpose(0, 1)
        return out.flatten(1)

    def _store(self, layer: int, key: Tensor, value: Tensor, blocks: Tensor, context: int) -> None:
        size = self._cache.shape.block_size
        positions = torch.arange(context - len(key), context)
        block, offset = blocks[positions // size], positions % size
        self._cache.keys[layer][block, :, :, offset] = key
        self._cache.values[layer][block, :, offset] = value


def _attend_row(query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
    """`query` [heads, new, width], the last tokens of `keys` and `values` [kv_heads, context, width].

    Returns [heads, new, width].
    """
    end, new = keys.shape[1], query.shape[1]
    start = end - new
    first, last = start // _TILE * _TILE, -(-end // _TILE) * _TILE
    query = _placed(query, start - first, last - first)
    keys, values = _placed(keys, 0, last), _placed(values, 0, last)
    tiles = [
        _attend_tile(
            query[:, at - first : at - first + _TILE], keys[:, : at + _TILE], values[:, : at + _TILE], rule
        )
        for at in range(first, last, _TILE)
    ]
    return torch.cat(tiles, dim=1)[:, start - first : end - first]


def _placed(x: Tensor, at: int, length: int) -> Tensor:
    """`x` among zeros, in float32 and always in one layout: sums may depend on that too."""
    placed = x.new_zeros(len(x), length, x.shape[-1], dtype=torch.float32)
    placed[:, at : at + x.shape[1]] = x
    return placed


def _attend_tile(query: Tensor, keys: Tensor, values: Tensor, rule: AttentionRule) -> Tensor:
    """The query heads that share a KV head become query rows: no key is repeated."""
    kv_heads, group = len(keys), len(query) // len(keys)
    rows = query.reshape(kv_heads, group * _TILE, -1)
    mask = _seen(keys.shape[1], rule.window).repeat(group, 1)
    if rule.softcap is None:
        out = functional.scaled_dot_product_attention(
            rows[None], keys[None], values[None], attn_mask=mask, scale=rule.scale
        )
    else:
        scores = rule.softcap * torch.tanh(rows @ keys.mT * rule.scale / rule.softcap)
        out = (scores.masked_fill(~mask, float("-inf")).softmax(-1) @ values)[None]
    return out.reshape(len(query), _TILE, -1)


def _seen(context: int, window: int | None) -> Tensor:
    """Which positions each of the last tile's tokens sees, [tile, context]."""
    seen = torch.ones(_TILE, context, dtype=torch.bool).tril(context - _TILE)
    return seen if window is None else seen.triu(context - _TILE - window + 1)
