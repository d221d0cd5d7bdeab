"""The native kernels compute what the torch ones do, at every edge of blocks, tiles and groups."""

from dataclasses import dataclass

import pytest
import torch

from headrace_engine.core.plan import Row
from headrace_engine.core.request import Sampling
from headrace_engine.runner.batch import Batch
from headrace_engine.runner.kernels.compile import CompileError
from headrace_engine.runner.kernels.native import NativeKernels, unsupported
from headrace_engine.runner.kernels.reference import ReferenceKernels
from headrace_engine.runner.kv_cache import KVCache, KVShape

NUM_BLOCKS = 24


@dataclass(frozen=True)
class Heads:
    query: int
    kv: int
    width: int


def kernels_of(kind, cache, num_heads):
    if kind is ReferenceKernels:
        return ReferenceKernels(cache, num_heads)
    try:
        return NativeKernels(cache, num_heads, threads=1)
    except CompileError as error:
        pytest.skip(f"no native kernels here: {error}")


def rows_of(spans, block_size):
    """(start, length) of each row, over blocks that are scattered and shared by no other row."""
    free = list(torch.randperm(NUM_BLOCKS, generator=torch.Generator().manual_seed(3)).tolist())
    rows = []
    for number, (start, length) in enumerate(spans):
        count = -(-(start + length) // block_size)
        table, free = free[:count], free[count:]
        rows.append(Row(f"r{number}", start, range(length), table, 1, Sampling()))
    return tuple(rows)


def attend(kind, heads, block_size, spans, dtype=torch.float32, poison=False):
    shape = KVShape(1, heads.kv, heads.width, block_size, dtype)
    cache = KVCache(shape, NUM_BLOCKS)
    generator = torch.Generator().manual_seed(1)
    for pages in (cache.keys, cache.values):
        pages.copy_(torch.randn(pages.shape, generator=generator))
    rows = rows_of(spans, block_size)
    if poison:
        forget_all_but_contexts(cache, rows)
    batch = Batch.of(rows, block_size)
    tokens = len(batch.positions)
    qkv = torch.randn(tokens, (heads.query + 2 * heads.kv) * heads.width, generator=generator).to(dtype)
    angles = torch.rand(tokens, heads.width // 2, generator=generator) * 6
    out = kernels_of(kind, cache, heads.query).attend(
        0, qkv, angles.cos().to(dtype), angles.sin().to(dtype), batch
    )
    return out.float(), cache


def forget_all_but_contexts(cache, rows):
    """NaN wherever no row has stored anything: what is never written must never be read."""
    size = cache.shape.block_size
    known = torch.zeros(NUM_BLOCKS, size, dtype=torch.bool)
    for row in rows:
        for position in range(row.start):
            known[row.block_table[position // size], position % size] = True
    cache.keys[0].transpose(2, 3).transpose(1, 2)[~known] = float("nan")
    cache.values[0].transpose(1, 2)[~known] = float("nan")


EDGES = {
    "one token, nothing before": [(0, 1)],
    "a decode at a block's first slot": [(64, 1)],
    "a decode at a block's last slot": [(63, 1)],
    "a prompt of one block": [(0, 64)],
    "a prompt one past a block": [(0, 65)],
    "a chunk that begins inside a block": [(40, 50)],
    "decodes and prefills together": [(5, 1), (0, 33), (64, 1), (31, 97), (127, 1)],
}


@pytest.mark.parametrize("spans", EDGES.values(), ids=EDGES.keys())
def test_attention_at_block_edges(spans):
    heads = Heads(9, 3, 64)
    expected, reference_cache = attend(ReferenceKernels, heads, 64, spans)
    found, native_cache = attend(NativeKernels, heads, 64, spans)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(native_cache.keys, reference_cache.keys, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(native_cache.values, reference_cache.values, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [ReferenceKernels, NativeKernels])
def test_what_was_never_stored_is_never_read(kind):
    out, _ = attend(kind, Heads(4, 2, 32), 16, [(17, 1), (0, 5), (3, 20)], poison=True)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize(
    "heads", [Heads(4, 4, 16), Heads(8, 1, 128), Heads(32, 1, 32), Heads(6, 3, 256), Heads(4, 2, 48)]
)
@pytest.mark.parametrize("block_size", [16, 32, 48, 128])
def test_attention_of_many_shapes(heads, block_size):
    spans = [(block_size, 1), (7, 2 * block_size), (0, 3)]
    expected, _ = attend(ReferenceKernels, heads, block_size, spans)
    found, _ = attend(NativeKernels, heads, block_size, spans)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_attention_in_bfloat16():
    spans = [(63, 1), (0, 70), (100, 20)]
    expected, _ = attend(ReferenceKernels, Heads(9, 3, 64), 64, spans, torch.bfloat16)
    found, _ = attend(NativeKernels, Heads(9, 3, 64), 64, spans, torch.bfloat16)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_two_threads_compute_what_one_does():
    shape = KVShape(1, 3, 64, 64, torch.float32)
    batch = Batch.of(rows_of([(70, 1), (0, 200), (5, 3)], 64), 64)
    generator = torch.Generator().manual_seed(2)
    qkv = torch.randn(len(batch.positions), 15 * 64, generator=generator)
    table, weight = torch.ones(len(batch.positions), 32), torch.ones(15 * 64)
    results = []
    for threads in (1, 2):
        try:
            kernels = NativeKernels(KVCache(shape, NUM_BLOCKS), 9, threads)
        except CompileError as error:
            pytest.skip(f"no native kernels here: {error}")
        results.append(
            (
                kernels.attend(0, qkv.clone(), table, table * 0, batch),
                kernels.add_rms_norm(qkv.clone(), qkv, weight, 1e-5),
                kernels.swiglu(qkv),
            )
        )
    for alone, together in zip(*results, strict=True):
        assert torch.equal(alone, together)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_and_swiglu(dtype):
    cache = KVCache(KVShape(1, 1, 16, 16, dtype), 1)
    generator = torch.Generator().manual_seed(4)
    x, delta = (torch.randn(5, 576, generator=generator).to(dtype) for _ in range(2))
    weight, gate_up = torch.randn(576, generator=generator).to(dtype), (torch.randn(5, 96) * 8).to(dtype)
    found, expected = [], []
    for kind, results in ((NativeKernels, found), (ReferenceKernels, expected)):
        kernels, stream = kernels_of(kind, cache, 1), x.clone()
        results.append(kernels.add_rms_norm(stream, None, weight, 1e-5))
        results.append(kernels.add_rms_norm(stream, delta, weight, 1e-5))
        results += [stream, kernels.swiglu(gate_up)]
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_shapes_that_vectors_do_not_divide_are_left_to_torch():
    cache = KVCache(KVShape(1, 1, 40, 16, torch.float32), 1)
    assert "head_dim 40" in unsupported(cache, 1)
    with pytest.raises(ValueError, match="head_dim 40"):
        NativeKernels(cache, 1, threads=1)
