"""Llama 2 and 3, SmolLM2 and whoever shares their blocks."""

from headrace_engine.runner.blocks.attention import Attention
from headrace_engine.runner.blocks.decoder import Decoder
from headrace_engine.runner.blocks.layer import PreNormLayer
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.rope import RotaryTables
from headrace_engine.runner.rope_config import read_rope
from headrace_engine.runner.weights import Weights


def llama(config: ModelConfig, weights: Weights, max_model_len: int) -> Decoder:
    """RMSNorm, rotary positions, grouped queries, SwiGLU."""
    document = config.document
    document.require("hidden_act", "silu")
    document.require("mlp_bias", supported=False)
    biased = document.flag("attention_bias")
    rope = RotaryTables(read_rope(document), config.head_dim, max_model_len, weights.dtype)
    layers = [
        PreNormLayer.load(
            config,
            weights,
            Attention.load(config, weights, index, rope=rope, qkv_bias=biased, output_bias=biased),
        )
        for index in range(config.num_hidden_layers)
    ]
    return Decoder(config, weights, layers)
