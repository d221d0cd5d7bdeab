"""A Llama model in a GGUF file, rewritten as a Hugging Face directory.

Tensors are dequantized by the `gguf` package and stored as bfloat16. Two things differ between the formats:
GGUF interleaves the rows of the query and key projections (its rotary embedding turns neighbouring pairs,
Hugging Face's turns halves), and GGUF keeps the tokenizer as lists, with the pre-tokenizer as a mere name.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, ReaderTensor, dequantize
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

_CONTROL_TOKEN = 3

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def convert(gguf: Path, directory: Path) -> None:
    """Writes config, weights and tokenizer of the Llama model in `gguf` into `directory`."""
    reader = GGUFReader(gguf)
    config = _config(reader)
    _write_json(directory / "config.json", config)
    _write_json(
        directory / "generation_config.json", {k: config[k] for k in ("bos_token_id", "eos_token_id")}
    )
    save_file(_tensors(reader, config), directory / "model.safetensors", metadata={"format": "pt"})
    _tokenizer(reader).save(str(directory / "tokenizer.json"))
    _write_json(directory / "tokenizer_config.json", _tokenizer_config(reader, config))


def _field(reader: GGUFReader, name: str) -> Any:
    return reader.fields[name].contents()


def _config(reader: GGUFReader) -> dict[str, Any]:
    names = {tensor.name for tensor in reader.tensors}
    heads = _field(reader, "llama.attention.head_count")
    hidden = _field(reader, "llama.embedding_length")
    theta = _field(reader, "llama.rope.freq_base")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(reader.fields["tokenizer.ggml.tokens"].data),
        "hidden_size": hidden,
        "intermediate_size": _field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": _field(reader, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _field(reader, "llama.attention.head_count_kv"),
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "rms_norm_eps": float(f"{_field(reader, 'llama.attention.layer_norm_rms_epsilon'):.3g}"),
        "max_position_embeddings": _field(reader, "llama.context_length"),
        "rope_theta": theta,
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "tie_word_embeddings": "output.weight" not in names,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": _field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _field(reader, "tokenizer.ggml.eos_token_id"),
        "dtype": "bfloat16",
    }


def _tensors(reader: GGUFReader, config: dict[str, Any]) -> dict[str, Tensor]:
    converted = {}
    for tensor in reader.tensors:
        weight = _dequantized(tensor)
        if ".attn_q." in tensor.name:
            weight = halves_from_pairs(weight, config["num_attention_heads"])
        elif ".attn_k." in tensor.name:
            weight = halves_from_pairs(weight, config["num_key_value_heads"])
        converted[_hugging_face_name(tensor.name)] = torch.from_numpy(weight.copy()).to(torch.bfloat16)
    return converted


def _dequantized(tensor: ReaderTensor) -> NDArray[np.float32]:
    return np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)


def halves_from_pairs(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undoes the row order of GGUF's rotary projections: rows (0, 1), (2, 3), ... of a head become its
    halves.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def _hugging_face_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _TOP_NAMES:
        return f"{_TOP_NAMES[stem]}.{kind}"
    block, layer, part = stem.split(".")
    if block != "blk":
        raise KeyError(name)
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"


def _tokenizer(reader: GGUFReader) -> Tokenizer:
    """Byte-level BPE that splits every digit, which GGUF's pre-tokenizer `smollm` stands for."""
    tokens, kinds = _field(reader, "tokenizer.ggml.tokens"), _field(reader, "tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ", 1)) for merge in _field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def _tokenizer_config(reader: GGUFReader, config: dict[str, Any]) -> dict[str, Any]:
    tokens = _field(reader, "tokenizer.ggml.tokens")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"]],
        "unk_token": tokens[_field(reader, "tokenizer.ggml.unknown_token_id")],
        "pad_token": tokens[_field(reader, "tokenizer.ggml.padding_token_id")],
        "model_max_length": config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
        "chat_template": _field(reader, "tokenizer.chat_template"),
    }


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
