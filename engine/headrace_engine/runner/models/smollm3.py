"""SmolLM3: Llama's blocks, some layers without positions (NoPE, Kazemnejad et al., arXiv 2305.19466)."""

from headrace_engine.runner.blocks.attention import Attention
from headrace_engine.runner.blocks.decoder import Decoder
from headrace_engine.runner.blocks.layer import PreNormLayer
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.rope import RotaryTables
from headrace_engine.runner.rope_config import read_rope
from headrace_engine.runner.weights import Weights


def smollm3(config: ModelConfig, weights: Weights, max_model_len: int) -> Decoder:
    document = config.document
    document.require("hidden_act", "silu")
    document.require("mlp_bias", supported=False)
    document.require("use_sliding_window", supported=False)
    biased = document.flag("attention_bias")
    rotated, plain = (
        RotaryTables(rope, config.head_dim, max_model_len, weights.dtype)
        for rope in (read_rope(document), None)
    )
    layers = [
        PreNormLayer.load(
            config,
            weights,
            Attention.load(
                config,
                weights,
                index,
                rope=rotated if has_positions else plain,
                qkv_bias=biased,
                output_bias=biased,
            ),
        )
        for index, has_positions in enumerate(_layers_with_positions(config))
    ]
    return Decoder(config, weights, layers)


def _layers_with_positions(config: ModelConfig) -> list[int]:
    """`no_rope_layers` has, against its name, a 1 for each layer with positions."""
    document, count = config.document, config.num_hidden_layers
    interval = document.integer("no_rope_layer_interval", high=1 << 10, default=4)
    default = [int((index + 1) % interval != 0) for index in range(count)]
    return document.per_layer("no_rope_layers", count, (0, 1), default)
