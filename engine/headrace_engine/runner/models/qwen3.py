"""Qwen 3 (dense): query and key heads are normed one by one, and heads have a width of their own."""

from headrace_engine.runner.blocks.attention import Attention, HeadNorms
from headrace_engine.runner.blocks.decoder import Decoder
from headrace_engine.runner.blocks.layer import PreNormLayer
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import AttentionRule
from headrace_engine.runner.models.windows import layer_windows
from headrace_engine.runner.rope import RotaryTables
from headrace_engine.runner.rope_config import read_rope
from headrace_engine.runner.weights import Weights


def qwen3(config: ModelConfig, weights: Weights, max_model_len: int) -> Decoder:
    document = config.document
    document.require("hidden_act", "silu")
    biased = document.flag("attention_bias")
    rope = RotaryTables(read_rope(document), config.head_dim, max_model_len, weights.dtype)
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
                qkv_bias=biased,
                output_bias=biased,
                head_norms=HeadNorms.load(config, weights, index),
            ),
        )
        for index, window in enumerate(layer_windows(config))
    ]
    return Decoder(config, weights, layers)
