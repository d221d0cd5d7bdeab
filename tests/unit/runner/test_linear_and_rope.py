"""Packed products equal plain ones; rotary tables equal those of transformers."""

import pytest
import torch
from torch.nn import functional
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from headrace_engine.runner.config_document import ConfigDocument
from headrace_engine.runner.linear import make_linear
from headrace_engine.runner.rope import rope_tables, rotate
from headrace_engine.runner.rope_config import Rope, read_rope

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize("rows", [1, 3, 16, 200])
@pytest.mark.parametrize("shape", [(960, 576), (33, 70), (1, 16)])
def test_a_packed_product_is_the_plain_one(rows, shape):
    generator = torch.Generator().manual_seed(rows)
    weight, bias = torch.randn(shape, generator=generator), torch.randn(shape[0], generator=generator)
    x = torch.randn(rows, shape[1], generator=generator)
    for added in (None, bias):
        torch.testing.assert_close(
            make_linear(weight, added)(x), functional.linear(x, weight, added), rtol=1e-5, atol=1e-4
        )


@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "default", "rope_theta": 100000.0},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        LLAMA3,
    ],
)
def test_rotary_tables_are_those_of_transformers(parameters):
    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        max_position_embeddings=16384,
        rope_parameters=dict(parameters),
    )
    cosines, sines = rope_tables(read_rope(ConfigDocument(config.to_dict())), 64, 16384)
    positions = torch.tensor([[0, 1, 63, 4095, 8192, 16383]])
    expected = LlamaRotaryEmbedding(config)(torch.empty(0), positions)
    for table, theirs in zip((cosines, sines), expected, strict=True):
        torch.testing.assert_close(table[positions[0]], theirs[0, :, :32], rtol=0, atol=2e-3)
        torch.testing.assert_close(table[:64], table[:64].clamp(-1, 1))


def test_the_older_spelling_of_rope_is_read_too():
    older = read_rope(ConfigDocument({"rope_theta": 5e5, "rope_scaling": {**LLAMA3, "type": "llama3"}}))
    newer = read_rope(ConfigDocument({"rope_parameters": LLAMA3}))
    assert older == newer
    assert read_rope(ConfigDocument({})) == Rope(1e4)


@pytest.mark.parametrize(
    "document",
    [
        {
            "rope_theta": 5e5,
            "rope_local_base_freq": 2e4,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 5e5, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
            }
        },
    ],
)
def test_layers_of_two_kinds_have_a_base_each_and_scaling_is_for_those_that_see_all(document):
    document = ConfigDocument(document)
    assert read_rope(document, kind_of_layer="full_attention") == Rope(5e5, "linear", 8.0)
    assert read_rope(document, kind_of_layer="sliding_attention") == Rope(2e4)


def test_rotation_keeps_lengths_and_depends_on_distance_alone():
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 1, 1, 32, generator=generator)
    cosines, sines = rope_tables(Rope(1e4), 32, 200)

    def score(at, other):
        tables = [(cosines[p].view(1, 1, -1), sines[p].view(1, 1, -1)) for p in (at, other)]
        return float((rotate(query, *tables[0]) * rotate(key, *tables[1])).sum())

    assert score(7, 3) == pytest.approx(score(107, 103), abs=1e-4)
    assert score(0, 0) == pytest.approx(float((query * key).sum()), abs=1e-5)
