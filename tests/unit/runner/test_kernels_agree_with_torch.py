"""The native kernels compute what the torch ones do, at every edge of blocks, tiles and groups."""

from dataclasses import dataclass

import pytest
import torch

from headrace_engine.core.plan import Row
from headrace_engine.core.sampling import Sampling
from headrace_engine.runner.batch import Batch
from headrace_engine.runner.kernels import AttentionRule
from headrace_engine.runner.kernels.compile import CompileError
from headrace_engine.runner.kernels.native import NativeKernels, unsupported
from headrace_engine.runner.kernels.reference import ReferenceKernels
from headrace_engine.runner.kv_cache import KVCache, KVShape
from headrace_engine.runner.rope import Rotation

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


def attend(kind, heads, block_size, spans, dtype=torch.float32, poison=False, **rule):
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
    rotation = Rotation(angles.cos().to(dtype), angles.sin().to(dtype))
    rule = AttentionRule(**{"scale": heads.width**-0.5, **rule})
    out = kernels_of(kind, cache, heads.query).attend(0, qkv, rotation, batch, rule)
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


WINDOWED = {
    "decodes that see less than a block": [(40, 1), (5, 1), (6, 1), (200, 1)],
    "a prompt longer than the window": [(0, 130)],
    "a chunk whose first tokens see pages that its last do not": [(20, 100), (0, 3)],
}


@pytest.mark.parametrize("spans", WINDOWED.values(), ids=WINDOWED.keys())
@pytest.mark.parametrize("window", [1, 7, 16, 17, 33, 500])
@pytest.mark.parametrize("heads", [Heads(9, 3, 64), Heads(14, 2, 16), Heads(5, 1, 256)])
def test_a_window_hides_what_lies_before_it(spans, window, heads):
    expected, _ = attend(ReferenceKernels, heads, 16, spans, window=window)
    found, _ = attend(NativeKernels, heads, 16, spans, window=window)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_window_of_one_sees_the_token_itself_alone():
    heads, tokens = Heads(4, 4, 16), 40
    generator = torch.Generator().manual_seed(1)
    for kind in (ReferenceKernels, NativeKernels):
        cache = KVCache(KVShape(1, 4, 16, 16, torch.float32), NUM_BLOCKS)
        batch = Batch.of(rows_of([(0, tokens)], 16), 16)
        qkv = torch.randn(tokens, 3 * 64, generator=generator)
        still = Rotation(torch.ones(tokens, 8), torch.zeros(tokens, 8))
        out = kernels_of(kind, cache, heads.query).attend(
            0, qkv.clone(), still, batch, AttentionRule(1.0, window=1)
        )
        torch.testing.assert_close(out, qkv[:, 128:], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{"softcap": 3.0}, {"softcap": 50.0, "window": 9}, {"scale": 0.7}])
def test_scores_are_scaled_and_capped(options):
    spans = [(33, 1), (0, 70), (20, 25)]
    expected, _ = attend(ReferenceKernels, Heads(6, 2, 32), 16, spans, **options)
    found, _ = attend(NativeKernels, Heads(6, 2, 32), 16, spans, **options)
    plain, _ = attend(NativeKernels, Heads(6, 2, 32), 16, spans)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
    assert not torch.allclose(found, plain, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_heads_are_normed_one_by_one_and_values_left_alone(dtype):
    heads, tokens = Heads(6, 2, 48), 50
    generator = torch.Generator().manual_seed(4)
    qkv = torch.randn(tokens, 10 * 48, generator=generator).to(dtype)
    weights = (1 + torch.randn(2, 48, generator=generator)).to(dtype)
    results = []
    for kind in (ReferenceKernels, NativeKernels):
        cache, normed = KVCache(KVShape(1, 2, 48, 16, dtype), 1), qkv.clone()
        kernels_of(kind, cache, heads.query).norm_heads(normed, *weights, 1e-6)
        assert torch.equal(normed[:, 8 * 48 :], qkv[:, 8 * 48 :])
        results.append(normed)
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)


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
    rotation, rule = Rotation(table, table * 0), AttentionRule(0.1, window=50)
    results = []
    for threads in (1, 2):
        try:
            kernels = NativeKernels(KVCache(shape, NUM_BLOCKS), 9, threads)
        except CompileError as error:
            pytest.skip(f"no native kernels here: {error}")
        results.append(
            (
                kernels.attend(0, qkv.clone(), rotation, batch, rule),
                kernels.add_rms_norm(qkv.clone(), qkv, weight, 1e-5),
                kernels.gate(qkv, "silu"),
            )
        )
    for alone, together in zip(*results, strict=True):
        assert torch.equal(alone, together)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_and_gates(dtype):
    cache = KVCache(KVShape(1, 1, 16, 16, dtype), 1)
    generator = torch.Generator().manual_seed(4)
    x, delta = (torch.randn(5, 576, generator=generator).to(dtype) for _ in range(2))
    weight, gate_up = torch.randn(576, generator=generator).to(dtype), (torch.randn(5, 96) * 8).to(dtype)
    found, expected = [], []
    for kind, results in ((NativeKernels, found), (ReferenceKernels, expected)):
        kernels, stream = kernels_of(kind, cache, 1), x.clone()
        results.append(kernels.add_rms_norm(stream, None, weight, 1e-5))
        results.append(kernels.add_rms_norm(stream, delta, weight, 1e-5))
        results += [stream, kernels.gate(gate_up, "silu"), kernels.gate(gate_up, "gelu_tanh")]
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_shapes_that_vectors_do_not_divide_are_left_to_torch():
    cache = KVCache(KVShape(1, 1, 40, 16, torch.float32), 1)
    assert "head_dim 40" in unsupported(cache, 1)
    with pytest.raises(ValueError, match="head_dim 40"):
        NativeKernels(cache, 1, threads=1)
