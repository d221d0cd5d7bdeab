"""A model in a GGUF file, rewritten as a Hugging Face directory.

Tensors are dequantized by the `gguf` package. Two things differ between the formats: for Llama, GGUF
interleaves the rows of the query and key projections (its rotary embedding turns neighbouring pairs, Hugging
Face's turns halves), and GGUF keeps the tokenizer as lists, with the pre-tokenizer as a mere name.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, ReaderTensor, dequantize
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.gguf_file.metadata import GGUFModel
from headrace_engine.runner.gguf_file.rope import FREQUENCIES, rope_parameters
from headrace_engine.runner.gguf_file.tokenizer import write_tokenizer

REVISION = "1"
"""Changes when what is written changes."""


@dataclass(frozen=True, slots=True)
class _Architecture:
    name: str
    model_type: str
    rotates_pairs: bool = False


_ARCHITECTURES = {
    "llama": _Architecture("LlamaForCausalLM", "llama", rotates_pairs=True),
    "qwen2": _Architecture("Qwen2ForCausalLM", "qwen2"),
    "qwen3": _Architecture("Qwen3ForCausalLM", "qwen3"),
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_FLOATS = {
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
}


def convert(gguf: Path, directory: Path, *, dtype: torch.dtype | None = None) -> None:
    """Writes config, weights and tokenizer of the model in `gguf` into `directory`.

    Weights are stored as `dtype`; None keeps each tensor's own type, and bfloat16 for quantized ones.

    Raises:
        ModelLoadError: the file is not whole, or holds what is not known here.
    """
    model = GGUFModel(gguf)
    config = _config(model)
    _write_json(directory / "config.json", config)
    ids = {key: config[key] for key in ("bos_token_id", "eos_token_id") if config[key] is not None}
    _write_json(directory / "generation_config.json", ids)
    save_file(_tensors(model, config, dtype), directory / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(model, directory)


def _architecture(model: GGUFModel) -> _Architecture:
    if model.architecture not in _ARCHITECTURES:
        raise ModelLoadError(
            f"{model.path} holds the architecture {model.architecture!r:.80}; from GGUF files "
            f"{', '.join(_ARCHITECTURES)} are read: use the model's safetensors directory"
        )
    return _ARCHITECTURES[model.architecture]


def _config(model: GGUFModel) -> dict[str, Any]:
    architecture, tensors = _architecture(model), model.tensors
    heads = model.hyperparameter("attention.head_count")
    hidden = model.hyperparameter("embedding_length")
    head_dim = model.hyperparameter("attention.key_length", hidden // heads)
    rope = rope_parameters(model, head_dim)
    return {
        "architectures": [architecture.name],
        "model_type": architecture.model_type,
        "vocab_size": int(_tensor(model, "token_embd.weight").shape[1]),
        "hidden_size": hidden,
        "intermediate_size": model.hyperparameter("feed_forward_length"),
        "num_hidden_layers": model.hyperparameter("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": model.hyperparameter("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": float(f"{model.hyperparameter('attention.layer_norm_rms_epsilon'):.3g}"),
        "max_position_embeddings": model.hyperparameter("context_length"),
        "rope_theta": rope["rope_theta"],
        "rope_parameters": rope,
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": architecture.rotates_pairs and "blk.0.attn_q.bias" in tensors,
        "mlp_bias": False,
        "bos_token_id": model.field("tokenizer.ggml.bos_token_id", None),
        "eos_token_id": model.field("tokenizer.ggml.eos_token_id", None),
        "dtype": "bfloat16",
    }


def _tensor(model: GGUFModel, name: str) -> ReaderTensor:
    if name not in model.tensors:
        raise ModelLoadError(f"{model.path} has no tensor {name!r}; it is no whole language model")
    return model.tensors[name]


def _tensors(model: GGUFModel, config: dict[str, Any], dtype: torch.dtype | None) -> dict[str, Tensor]:
    pairs = _architecture(model).rotates_pairs
    converted = {}
    for name, tensor in model.tensors.items():
        if name == FREQUENCIES:
            continue
        weight = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        if pairs and ".attn_q." in name:
            weight = halves_from_pairs(weight, config["num_attention_heads"])
        elif pairs and ".attn_k." in name:
            weight = halves_from_pairs(weight, config["num_key_value_heads"])
        stored = dtype or _FLOATS.get(tensor.tensor_type, torch.bfloat16)
        converted[_hugging_face_name(model, name)] = torch.from_numpy(weight.copy()).to(stored)
    return converted


def halves_from_pairs(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undoes the row order of GGUF's rotary projections: rows (0, 1), (2, 3), ... of a head become its
    halves. Biases are one column.
    """
    rows = weight.shape[0]
    pairs = weight.reshape(heads, rows // heads // 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _hugging_face_name(model: GGUFModel, name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _TOP_NAMES:
        return f"{_TOP_NAMES[stem]}.{kind}"
    match stem.split("."):
        case ["blk", layer, part] if part in _LAYER_NAMES:
            return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"
    raise ModelLoadError(
        f"{model.path} has a tensor {name!r:.80} that is not known for {model.architecture}: use the model's "
        "safetensors directory"
    )


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
