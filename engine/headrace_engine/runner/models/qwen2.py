"""Qwen 2 and 2.5: Llama's blocks with biases on query, key and value."""

from headrace_engine.runner.blocks.attention import Attention
from headrace_engine.runner.blocks.decoder import Decoder
from headrace_engine.runner.blocks.layer import PreNormLayer
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import AttentionRule
from headrace_engine.runner.models.windows import layer_windows
from headrace_engine.runner.rope import RotaryTables
from headrace_engine.runner.rope_config import read_rope
from headrace_engine.runner.weights import Weights


def qwen2(config: ModelConfig, weights: Weights, max_model_len: int) -> Decoder:
    config.document.require("hidden_act", "silu")
    rope = RotaryTables(read_rope(config.document), config.head_dim, max_model_len, weights.dtype)
    layers = [
        PreNormLayer.load(
            config,
            weights,
            Attention.load(
                config,
                weights,
                index,
                rope=rope,
                rule=AttentionRule(config.head_dim**-0.5, window),
                qkv_bias=True,
            ),
        )
        for index, window in enumerate(layer_windows(config))
    ]
    return Decoder(config, weights, layers)
