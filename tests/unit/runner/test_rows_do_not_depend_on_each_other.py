"""A row's bits are its own: of products, norms, gates, attention, and log probabilities."""

import pytest
import torch

from headrace_engine.core.plan import Row
from headrace_engine.core.sampling import Sampling
from headrace_engine.runner.batch import Batch
from headrace_engine.runner.batch_invariance import batch_invariant, find_least_rows
from headrace_engine.runner.kernels import AttentionRule
from headrace_engine.runner.kernels.compile import CompileError
from headrace_engine.runner.kernels.native import NativeKernels
from headrace_engine.runner.kernels.reference import ReferenceKernels
from headrace_engine.runner.kv_cache import KVCache, KVShape
from headrace_engine.runner.linear import make_linear
from headrace_engine.runner.logprobs import token_logprobs
from headrace_engine.runner.rope import Rotation

COUNTS = (1, 2, 3, 4, 7, 15, 16, 17, 33, 100)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_rows_are_their_own(product, x, counts=COUNTS):
    whole = product(x)
    for count in counts:
        parts = torch.cat([product(part) for part in x.split(count)])
        assert torch.equal(parts, whole), f"{count} rows at a time"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", [(576, 1536), (960, 576), (70, 33), (16, 4096), (2048, 2048)])
@pytest.mark.parametrize("biased", [False, True])
def test_of_a_product_in_any_number_of_rows(dtype, shape, biased):
    weight, bias = normal(*shape).to(dtype), normal(shape[0]).to(dtype) if biased else None
    assert_rows_are_their_own(make_linear(weight, bias), normal(200, shape[1], seed=1).to(dtype))


def add_up(x, weight, columns):
    total = torch.zeros(len(x), len(weight))
    for column in columns:
        total = total + x[:, column, None] * weight[:, column]
    return total


@pytest.mark.parametrize(("fewer", "least"), [(1, 1), (2, 2), (3, 16), (16, 16), (17, None), (40, None)])
def test_of_a_library_that_adds_up_backwards_where_rows_are_few(fewer, least):
    def make(weight):
        columns = range(weight.shape[1])
        return lambda x: add_up(x, weight, reversed(columns) if len(x) < fewer else columns)

    assert find_least_rows(make, (8, 32), torch.float32, 1) == least
    product, x = make(normal(8, 32)), normal(100, 32, seed=1)
    assert_rows_are_their_own(batch_invariant(product, least), x)
    if least != 1:
        with pytest.raises(AssertionError, match="1 rows at a time"):
            assert_rows_are_their_own(product, x)


def kernels_of(kind, cache, heads):
    if kind is ReferenceKernels:
        return ReferenceKernels(cache, heads)
    try:
        return NativeKernels(cache, heads, 1)
    except CompileError as error:
        pytest.skip(f"no native kernels here: {error}")


def attention(kind, spans, rule, dtype=torch.bfloat16, heads=9, kv_heads=3, width=64, size=32):
    """What the kernels say of one sequence, computed span by span, each in blocks and a place of its own."""
    kernels = kernels_of(kind, KVCache(KVShape(1, kv_heads, width, size, dtype), 8), heads)
    end = spans[-1].stop
    qkv = normal(end, (heads + 2 * kv_heads) * width).to(dtype)
    qkv[: end // 2, -1] = 0  # a sum of nothing shows whatever is added to it
    angles = normal(end, width // 2, seed=1)
    outs = []
    for span in spans:
        part = slice(span.start, span.stop)
        mine, other = Row("r", span.start, range(len(span)), range(6), 1, Sampling()), len(span) % 4
        beside = Row("beside", 0, range(other), range(6, 7), 1, Sampling())
        batch = Batch.of((beside, mine) if other else (mine,), size)
        before, before_angles = normal(other, qkv.shape[1], seed=2).to(dtype), normal(other, width // 2)
        angles_of_all = torch.cat((before_angles, angles[part]))
        rotation = Rotation(angles_of_all.cos().to(dtype), angles_of_all.sin().to(dtype))
        outs.append(kernels.attend(0, torch.cat((before, qkv[part])), rotation, batch, rule)[other:])
    return torch.cat(outs)


@pytest.mark.parametrize("kind", [NativeKernels, ReferenceKernels])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("step", [1, 2, 3, 5, 10, 11, 31, 64])
@pytest.mark.parametrize(
    "rule", [AttentionRule(0.3), AttentionRule(0.3, window=17), AttentionRule(0.3, softcap=3.0)]
)
def test_of_attention_however_a_prompt_is_cut(kind, rule, step, dtype):
    whole = attention(kind, [range(150)], rule, dtype)
    spans = [range(first, min(first + step, 150)) for first in range(0, 150, step)]
    assert torch.equal(attention(kind, spans, rule, dtype), whole)


@pytest.mark.parametrize("kind", [NativeKernels, ReferenceKernels])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [96, 577])
def test_of_norms_and_gates_in_any_number_of_rows(kind, dtype, width):
    kernels = kernels_of(kind, KVCache(KVShape(1, 1, 16, 16, dtype), 1), 1)
    x, weight, gates = (normal(*shape).to(dtype) for shape in ((100, width), (width,), (100, 2 * width)))
    assert_rows_are_their_own(lambda rows: kernels.add_rms_norm(rows.clone(), None, weight, 1e-5), x)
    for activation in ("silu", "gelu_tanh"):
        assert_rows_are_their_own(lambda rows, name=activation: kernels.gate(rows.contiguous(), name), gates)


def test_of_log_probabilities_whichever_threads_share_a_row():
    vocabulary, told = 50_257, []
    logits = 4 * normal(3, vocabulary)
    torch.set_num_threads(2)
    try:
        together = token_logprobs(logits.clone(), [0, 1, 2], [5, 6, 7], [2, 2, 2])
        for row in range(3):
            told += token_logprobs(logits[row : row + 1].clone(), [0], [5 + row], [2])
    finally:
        torch.set_num_threads(1)
    assert told == together
