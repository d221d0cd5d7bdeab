"""Gemma 3, text: most layers see a sliding window and rotate by a base of their own, every sixth sees all.

Norms before and after each block, stored as distance from one; embeddings are scaled by the root of their
width; the gate is a GELU. Scores are scaled by what the configuration says, not by the head's width.
"""

from headrace_engine.runner.blocks.attention import Attention, HeadNorms
from headrace_engine.runner.blocks.decoder import Decoder
from headrace_engine.runner.blocks.layer import SandwichNormLayer
from headrace_engine.runner.blocks.mlp import GatedMLP
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import AttentionRule
from headrace_engine.runner.models.windows import FULL, SLIDING, layer_kinds
from headrace_engine.runner.rope import RotaryTables
from headrace_engine.runner.rope_config import read_rope
from headrace_engine.runner.weights import Weights

_DEFAULT_THETA = {FULL: 1e6, SLIDING: 1e4}


def gemma3(config: ModelConfig, weights: Weights, max_model_len: int) -> Decoder:
    document = config.document
    document.require("hidden_activation", "gelu_pytorch_tanh")
    document.require("attention_bias", supported=False)
    document.require("attn_logit_softcapping", supported=None)
    document.require("use_bidirectional_attention", supported=False)
    rules = _rules(config)
    ropes = {
        kind: RotaryTables(
            read_rope(document, kind_of_layer=kind, default_theta=theta),
            config.head_dim,
            max_model_len,
            weights.dtype,
        )
        for kind, theta in _DEFAULT_THETA.items()
    }
    layers = [
        SandwichNormLayer.load(
            config,
            weights,
            Attention.load(
                config,
                weights,
                index,
                rope=ropes[kind],
                rule=rules[kind],
                head_norms=HeadNorms.load(config, weights, index, plus_one=True),
            ),
            GatedMLP.load(config, weights, index, "gelu_tanh"),
        )
        for index, kind in enumerate(_kinds(config))
    ]
    return Decoder(
        config,
        weights,
        layers,
        norm_plus_one=True,
        embedding_scale=config.hidden_size**0.5,
        logit_softcap=document.number_or_none("final_logit_softcapping"),
    )


def _rules(config: ModelConfig) -> dict[str, AttentionRule]:
    scale = config.document.number("query_pre_attn_scalar", default=256.0) ** -0.5
    window = config.document.integer("sliding_window", high=1 << 26, default=4096)
    return {FULL: AttentionRule(scale), SLIDING: AttentionRule(scale, window)}


def _kinds(config: ModelConfig) -> list[str]:
    """Before transformers 4.52 the pattern was one number."""
    return layer_kinds(config, config.document.integer("sliding_window_pattern", high=1 << 10, default=6))
