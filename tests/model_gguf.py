"""GGUF files as llama.cpp's converter writes them, made of tiny Hugging Face directories."""

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quantize
from safetensors.numpy import load_file

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def write(
    directory: Path,
    path: Path,
    *,
    architecture: str = "llama",
    tokenizer: Path | None = None,
    pre: str = "gpt-2",
    quantized: bool = False,
    tensors: dict[str, np.ndarray] | None = None,
    **fields: object,
) -> Path:
    """Writes the model in `directory` to `path`; `fields` (strings and integers) are written last."""
    config = json.loads((directory / "config.json").read_text())
    writer = GGUFWriter(path, architecture)
    _hyperparameters(writer, config)
    _tokenizer(writer, tokenizer or directory, pre)
    for name, value in fields.items():
        add = writer.add_string if isinstance(value, str) else writer.add_uint32
        add(name.replace("__", "."), value)
    for name, weight in {**_weights(directory, config, architecture), **(tensors or {})}.items():
        if quantized and weight.ndim == 2 and weight.shape[1] % 32 == 0:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _hyperparameters(writer, config):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    if config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])


def _tokenizer(writer, directory, pre):
    document = json.loads((directory / "tokenizer.json").read_text())
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    ids = document["model"]["vocab"]
    added = {token["content"] for token in document["added_tokens"] if token["special"]}
    tokens = sorted(ids, key=ids.get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in added else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in document["model"]["merges"]])
    writer.add_bos_token_id(ids[settings["bos_token"]])
    writer.add_eos_token_id(ids[settings["eos_token"]])
    writer.add_chat_template(settings["chat_template"])


def _weights(directory, config, architecture):
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for name, tensor in load_file(directory / "model.safetensors").items():
        weight = tensor
        stem, kind = name.rsplit(".", 1)
        if stem.startswith("model.layers."):
            layer, part = stem.removeprefix("model.layers.").split(".", 1)
            part = _NAMES[part]
            stem = f"blk.{layer}.{part}"
            if architecture == "llama" and part in heads:
                weight = _pairs_from_halves(weight, heads[part])
        else:
            stem = _NAMES[stem]
        weights[f"{stem}.{kind}"] = np.ascontiguousarray(weight, np.float32)
    return weights


def _pairs_from_halves(weight, heads):
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1)
    return halves.swapaxes(1, 2).reshape(weight.shape)
