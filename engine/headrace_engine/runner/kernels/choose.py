"""Picks the fastest kernels that this machine computes right."""

import logging
from dataclasses import replace

import torch

from headrace_engine.core.plan import Row
from headrace_engine.core.sampling import Sampling
from headrace_engine.runner.batch import Batch
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.kernels import AttentionRule, Kernels
from headrace_engine.runner.kernels.compile import CompileError
from headrace_engine.runner.kernels.native import NativeKernels
from headrace_engine.runner.kernels.reference import ReferenceKernels
from headrace_engine.runner.kv_cache import KVCache
from headrace_engine.runner.rope import Rotation

log = logging.getLogger(__name__)

BACKENDS = ("auto", "native", "torch")


def choose_kernels(cache: KVCache, num_heads: int, threads: int, backend: str = "auto") -> Kernels:
    """The backend asked for; with `auto` the native one where it compiles and agrees with torch, else torch.

    Raises:
        ModelLoadError: an unknown backend, or `native` where it cannot be had.
    """
    if backend not in BACKENDS:
        raise ModelLoadError(f"attention backend {backend!r:.40} is not one of {', '.join(BACKENDS)}")
    if backend == "torch":
        return ReferenceKernels(cache, num_heads)
    try:
        native = NativeKernels(cache, num_heads, threads)
        reason = "" if agrees(cache, num_heads, threads) else "they disagree with torch on this processor"
    except (CompileError, OSError, ValueError) as error:
        reason = str(error)
    if not reason:
        return native
    if backend == "native":
        raise ModelLoadError(f"the native kernels cannot be used: {reason}")
    log.warning("native kernels are not used, attention will be slower: %s", reason)
    return ReferenceKernels(cache, num_heads)


def agrees(cache: KVCache, num_heads: int, threads: int) -> bool:
    """Whether native and reference attention give the same on a small cache of the same shape, chunked and
    decoding.
    """
    shape = replace(cache.shape, num_layers=1)
    rows = (_row(0, shape.block_size + 3, (0, 2)), _row(shape.block_size, 1, (1, 3)))
    batch = Batch.of(rows, shape.block_size)
    generator = torch.Generator().manual_seed(0)
    width = (num_heads + 2 * shape.num_kv_heads) * shape.head_dim
    qkv = torch.randn(len(batch.positions), width, generator=generator).to(shape.dtype)
    angles = torch.rand(len(batch.positions), shape.head_dim // 2, generator=generator)
    rotation = Rotation(angles.cos().to(shape.dtype), angles.sin().to(shape.dtype))
    tolerance = 1e-4 if shape.dtype is torch.float32 else 5e-2
    for rule in (AttentionRule(0.2), AttentionRule(0.2, window=5), AttentionRule(0.2, softcap=2.0)):
        expected, found = (
            kernels.attend(0, qkv.clone(), rotation, batch, rule).float()
            for kernels in (
                ReferenceKernels(KVCache(shape, 4), num_heads),
                NativeKernels(KVCache(shape, 4), num_heads, threads),
            )
        )
        if not torch.allclose(found, expected, rtol=tolerance, atol=tolerance):
            return False
    return True


def _row(start: int, count: int, blocks: tuple[int, ...]) -> Row:
    return Row("check", start, range(count), blocks, 1, Sampling())
