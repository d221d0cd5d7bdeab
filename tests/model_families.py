"""A tiny random model of every family, as `transformers` builds and saves it."""

from pathlib import Path

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

VOCABULARY = 512
WINDOW = 20
"""One block of 16 and a part of the next: every longer context crosses it inside a block."""
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 96,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
_GEMMA3 = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": WINDOW,
    "query_pre_attn_scalar": 24,
    "rope_parameters": _GEMMA3_ROPE,
}


def _llama(**options):
    return LlamaForCausalLM, LlamaConfig(**{**_SIZES, **options})


def _qwen2(**options):
    sizes = {key: value for key, value in _SIZES.items() if key != "head_dim"}
    return Qwen2ForCausalLM, Qwen2Config(**{**sizes, **options})


def _qwen3(**options):
    return Qwen3ForCausalLM, Qwen3Config(**{**_SIZES, **options})


def _mistral(**options):
    return MistralForCausalLM, MistralConfig(**{**_SIZES, **options})


def _gemma3(**options):
    return Gemma3ForCausalLM, Gemma3TextConfig(**{**_SIZES, **_GEMMA3, **options})


FAMILIES = {
    "llama with scaled rope": lambda: _llama(rope_parameters=_LLAMA3_ROPE, tie_word_embeddings=True),
    "llama with biases": lambda: _llama(attention_bias=True),
    "qwen2": _qwen2,
    "qwen2 with a window in its last layers": lambda: _qwen2(
        use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1
    ),
    "qwen3": lambda: _qwen3(hidden_size=80, num_attention_heads=10, head_dim=32, tie_word_embeddings=True),
    "mistral": lambda: _mistral(sliding_window=None),
    "mistral with a window": lambda: _mistral(sliding_window=WINDOW),
    "gemma3": _gemma3,
    "gemma3 with heads of 256 and capped logits": lambda: _gemma3(
        head_dim=256, num_attention_heads=4, num_key_value_heads=1, final_logit_softcapping=6.0
    ),
    "gemma2 with capped scores": lambda: (
        Gemma2ForCausalLM,
        Gemma2Config(
            **{**_SIZES, "sliding_window": WINDOW, "attn_logit_softcapping": 1.5, "query_pre_attn_scalar": 16}
        ),
    ),
    "smollm3": lambda: (
        SmolLM3ForCausalLM,
        SmolLM3Config(**{**_SIZES, "no_rope_layers": [1, 0, 1], "tie_word_embeddings": True}),
    ),
}


def make(name: str, directory: Path) -> PreTrainedModel:
    """Writes the model of a family into `directory` and returns what transformers computes with."""
    return _write(directory, *FAMILIES[name]())


def make_llama(directory: Path, **options) -> PreTrainedModel:
    """The same of a Llama with other sizes."""
    return _write(directory, *_llama(**options))


def _write(directory, cls, config):
    config._attn_implementation = "eager"
    model = cls(config).eval()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                # Around what the norm or the bias starts from, far enough that leaving it out shows.
                parameter.add_(0.3 * drawn)
            else:
                parameter.copy_(drawn * 1.5 * parameter.shape[-1] ** -0.5)
    model.save_pretrained(directory)
    return model
