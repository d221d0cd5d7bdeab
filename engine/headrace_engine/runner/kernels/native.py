"""The kernels in C, called through ctypes, which releases the GIL while they run."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.kernels import Activation, AttentionRule
from headrace_engine.runner.kernels.compile import shared_library
from headrace_engine.runner.kv_cache import KVCache
from headrace_engine.runner.rope import Rotation

_SOURCE = Path(__file__).with_name("native.c")
_LANES = 16
_MAX_WIDTH = 256
_MAX_GROUP = 32
_DEFINES: dict[torch.dtype, tuple[str, ...]] = {torch.float32: (), torch.bfloat16: ("STORED_BF16",)}


class _Shape(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("heads", "kv_heads", "head_dim", "block_size", "threads")),
    )


class _Rule(ctypes.Structure):
    _fields_ = (("scale", ctypes.c_float), ("softcap", ctypes.c_float), ("window", ctypes.c_int32))


class _Batch(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_int32),
        ("table_stride", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("query_starts", "context_lengths", "block_tables")),
    )


class NativeKernels:
    """Compiled on this machine for this machine. All tensors are contiguous, on CPU and of the cache's
    type.
    """

    name: Final = "native"

    def __init__(self, cache: KVCache, num_heads: int, threads: int) -> None:
        """Compiles or finds the library.

        Raises:
            CompileError: it cannot be had here.
            ValueError: the model's or the cache's shape is not one that the kernels take.
        """
        shape = cache.shape
        if reason := unsupported(cache, num_heads):
            raise ValueError(reason)
        self._cache = cache
        self._library = _load(shape.dtype)
        self._shape = _Shape(num_heads, shape.num_kv_heads, shape.head_dim, shape.block_size, threads)
        self._width = num_heads * shape.head_dim

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        out = torch.empty_like(x)
        self._library.add_rms_norm(
            x.data_ptr(),
            None if delta is None else delta.data_ptr(),
            weight.data_ptr(),
            out.data_ptr(),
            len(x),
            x.shape[1],
            eps,
            self._shape.threads,
        )
        return out

    def norm_heads(self, qkv: Tensor, query_weight: Tensor, key_weight: Tensor, eps: float) -> None:
        self._library.norm_heads(
            ctypes.byref(self._shape),
            qkv.data_ptr(),
            query_weight.data_ptr(),
            key_weight.data_ptr(),
            len(qkv),
            eps,
        )

    def gate(self, gate_up: Tensor, activation: Activation) -> Tensor:
        tokens, width = len(gate_up), gate_up.shape[1] // 2
        out = gate_up.new_empty(tokens, width)
        function = self._library.swiglu if activation == "silu" else self._library.geglu
        function(gate_up.data_ptr(), out.data_ptr(), tokens, width, self._shape.threads)
        return out

    def attend(
        self,
        layer: int,
        qkv: Tensor,
        rotation: Rotation,
        batch: Batch,
        rule: AttentionRule,
    ) -> Tensor:
        out = qkv.new_empty(len(qkv), self._width)
        rows = _Batch(
            batch.num_rows,
            batch.block_tables.shape[1],
            batch.query_starts.data_ptr(),
            batch.context_lengths.data_ptr(),
            batch.block_tables.data_ptr(),
        )
        self._library.attend(
            ctypes.byref(self._shape),
            ctypes.byref(_Rule(rule.scale, rule.softcap or 0.0, rule.window or 0)),
            ctypes.byref(rows),
            qkv.data_ptr(),
            rotation.cosines.data_ptr(),
            rotation.sines.data_ptr(),
            self._cache.keys[layer].data_ptr(),
            self._cache.values[layer].data_ptr(),
            out.data_ptr(),
        )
        return out


def unsupported(cache: KVCache, num_heads: int) -> str | None:
    """Why the kernels do not take this shape, or None where they do."""
    shape = cache.shape
    if shape.dtype not in _DEFINES:
        return f"{shape.dtype} is not one of their types"
    if shape.head_dim % _LANES or shape.head_dim > _MAX_WIDTH:
        return f"head_dim {shape.head_dim} is no multiple of {_LANES} up to {_MAX_WIDTH}"
    if shape.block_size % _LANES or shape.block_size > _MAX_WIDTH:
        return f"block size {shape.block_size} is no multiple of {_LANES} up to {_MAX_WIDTH}"
    if num_heads // shape.num_kv_heads > _MAX_GROUP:
        return f"more than {_MAX_GROUP} heads share a KV head"
    return None


@cache
def _load(dtype: torch.dtype) -> ctypes.CDLL:
    # torch has loaded its OpenMP runtime by now; the library's, of the same name, resolves to it.
    library = ctypes.CDLL(str(shared_library(_SOURCE, _DEFINES[dtype])))
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    library.add_rms_norm.argtypes = [*[pointer] * 4, size, size, ctypes.c_float, ctypes.c_int32]
    library.norm_heads.argtypes = [*[pointer] * 4, size, ctypes.c_float]
    for gate in (library.swiglu, library.geglu):
        gate.argtypes = [pointer, pointer, size, size, ctypes.c_int32]
        gate.restype = None
    library.attend.argtypes = [pointer] * 9
    for function in (library.add_rms_norm, library.norm_heads, library.attend):
        function.restype = None
    return library
