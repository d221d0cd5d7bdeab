"""Rotary position embedding (Su et al., RoFormer, arXiv 2104.09864), with the scalings that Llama models
use.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from headrace_engine.runner.rope_config import Rope


class Rotation(NamedTuple):
    """The angles of some tokens, [T, head_dim / 2] each."""

    cosines: Tensor
    sines: Tensor


class RotaryTables:
    """The angles of every position, in the compute type. Without a `rope` nothing is rotated."""

    def __init__(self, rope: Rope | None, head_dim: int, max_positions: int, dtype: torch.dtype) -> None:
        if rope is None:
            cosines, sines = (
                torch.ones(max_positions, head_dim // 2),
                torch.zeros(max_positions, head_dim // 2),
            )
        else:
            cosines, sines = rope_tables(rope, head_dim, max_positions)
        self._cosines, self._sines = cosines.to(dtype), sines.to(dtype)

    def at(self, positions: Tensor) -> Rotation:
        return Rotation(self._cosines[positions], self._sines[positions])


def rope_tables(rope: Rope, head_dim: int, max_positions: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, [positions, head_dim / 2] each, in float32."""
    angles = torch.arange(max_positions).float()[:, None] * inverse_frequencies(rope, head_dim)
    return angles.cos(), angles.sin()


def inverse_frequencies(rope: Rope, head_dim: int) -> Tensor:
    """What a position is multiplied with to give its angles, [head_dim / 2] in float32."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    frequencies = 1.0 / (rope.theta**exponents)
    if rope.kind == "linear":
        return frequencies / rope.factor
    if rope.kind == "llama3":
        return _llama3(frequencies, rope)
    return frequencies


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotates [T, heads, head_dim] by tables taken at the tokens' positions, [T, 1, head_dim / 2]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


def _llama3(frequencies: Tensor, rope: Rope) -> Tensor:
    """Llama 3.1: long waves are stretched by `factor`, short ones kept, those between interpolated."""
    original = rope.original_max_position_embeddings
    wavelengths = 2 * math.pi / frequencies
    smooth = (original / wavelengths - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    smooth = smooth.clamp(0.0, 1.0)
    return (1 - smooth) * frequencies / rope.factor + smooth * frequencies
