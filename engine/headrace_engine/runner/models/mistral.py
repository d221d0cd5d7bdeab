"""Mistral: Llama's blocks, every layer behind a sliding window where the configuration has one."""

from headrace_engine.runner.blocks.attention import Attention
from headrace_engine.runner.blocks.decoder import Decoder
from headrace_engine.runner.blocks.layer import PreNormLayer
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import AttentionRule
from headrace_engine.runner.rope import RotaryTables
from headrace_engine.runner.rope_config import read_rope
from headrace_engine.runner.weights import Weights


def mistral(config: ModelConfig, weights: Weights, max_model_len: int) -> Decoder:
    document = config.document
    document.require("hidden_act", "silu")
    window = document.integer("sliding_window", high=1 << 26) if document.has("sliding_window") else None
    rope = RotaryTables(read_rope(document), config.head_dim, max_model_len, weights.dtype)
    rule = AttentionRule(config.head_dim**-0.5, window)
    layers = [
        PreNormLayer.load(config, weights, Attention.load(config, weights, index, rope=rope, rule=rule))
        for index in range(config.num_hidden_layers)
    ]
    return Decoder(config, weights, layers)
