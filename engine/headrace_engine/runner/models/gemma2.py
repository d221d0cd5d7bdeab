"""Gemma 2: every other layer sees a sliding window, and scores and logits are capped.

Norms before and after each block, stored as distance from one; embeddings are scaled by the root of their
width; the gate is a GELU.
"""

from headrace_engine.runner.blocks.attention import Attention
from headrace_engine.runner.blocks.decoder import Decoder
from headrace_engine.runner.blocks.layer import SandwichNormLayer
from headrace_engine.runner.blocks.mlp import GatedMLP
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import AttentionRule
from headrace_engine.runner.models.windows import FULL, SLIDING, layer_kinds
from headrace_engine.runner.rope import RotaryTables
from headrace_engine.runner.rope_config import read_rope
from headrace_engine.runner.weights import Weights


def gemma2(config: ModelConfig, weights: Weights, max_model_len: int) -> Decoder:
    document = config.document
    document.require("hidden_activation", "gelu_pytorch_tanh")
    document.require("attention_bias", supported=False)
    document.require("use_bidirectional_attention", supported=False)
    rules = _rules(config)
    rope = RotaryTables(read_rope(document), config.head_dim, max_model_len, weights.dtype)
    layers = [
        SandwichNormLayer.load(
            config,
            weights,
            Attention.load(config, weights, index, rope=rope, rule=rules[kind]),
            GatedMLP.load(config, weights, index, "gelu_tanh"),
        )
        for index, kind in enumerate(layer_kinds(config, every=2))
    ]
    return Decoder(
        config,
        weights,
        layers,
        norm_plus_one=True,
        embedding_scale=config.hidden_size**0.5,
        logit_softcap=document.number_or_none("final_logit_softcapping", default=30.0),
    )


def _rules(config: ModelConfig) -> dict[str, AttentionRule]:
    scale = config.document.number("query_pre_attn_scalar", default=256.0) ** -0.5
    softcap = config.document.number_or_none("attn_logit_softcapping", default=50.0)
    window = config.document.integer("sliding_window", high=1 << 26, default=4096)
    return {FULL: AttentionRule(scale, None, softcap), SLIDING: AttentionRule(scale, window, softcap)}
