"""A model's `config.json`, read by an allow-list of keys and checked before anything is allocated.

Here stands what every decoder has; what only some families know (windows, biases, caps), the family's own
module reads from `document`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace_engine.runner.config_document import ConfigDocument
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.model_directory import read_json, read_json_if_there


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a decoder-only transformer needs to be built. Field names are Hugging Face's."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    max_position_embeddings: int
    tie_word_embeddings: bool | None
    """None: not said, so tied if there is no other head."""
    eos_token_ids: frozenset[int]
    document: ConfigDocument
    """The whole of it, for the keys of one family."""

    @classmethod
    def load(cls, directory: Path) -> "ModelConfig":
        """Reads `config.json` and the end-of-sequence ids of `generation_config.json`.

        Raises:
            ModelLoadError: a missing file, a missing key, or a value that no model has; the key is named.
        """
        config = read_json(directory, "config.json")
        generation = read_json_if_there(directory, "generation_config.json")
        return cls.parse(config, generation)

    @classmethod
    def parse(cls, config: Mapping[str, Any], generation: Mapping[str, Any]) -> "ModelConfig":
        """As `load`, from the documents themselves."""
        document = ConfigDocument(config)
        if config.get("quantization_config"):
            raise ModelLoadError(
                "config.json: quantized checkpoints are not read yet; use the unquantized model"
            )
        hidden_size = document.integer("hidden_size", high=1 << 17)
        num_heads = document.integer("num_attention_heads", high=1 << 12)
        num_kv_heads = document.integer("num_key_value_heads", high=1 << 12, default=num_heads)
        if num_heads % num_kv_heads:
            raise ModelLoadError(
                f"config.json: {num_heads} attention heads do not divide over {num_kv_heads} KV heads"
            )
        vocab_size = document.integer("vocab_size", high=1 << 24)
        tied = document.flag("tie_word_embeddings") if document.has("tie_word_embeddings") else None
        return cls(
            architecture=_architecture(config),
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=document.integer("intermediate_size", high=1 << 20),
            num_hidden_layers=document.integer("num_hidden_layers", high=1 << 10),
            num_attention_heads=num_heads,
            num_key_value_heads=num_kv_heads,
            head_dim=_head_dim(document, hidden_size // num_heads),
            rms_norm_eps=document.number("rms_norm_eps", default=1e-6),
            max_position_embeddings=document.integer("max_position_embeddings", high=1 << 26),
            tie_word_embeddings=tied,
            eos_token_ids=_eos_token_ids(config, generation, vocab_size),
            document=document,
        )


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise ModelLoadError("config.json names no single architecture; `architectures` takes one string")
    return names[0]


def _head_dim(document: ConfigDocument, default: int) -> int:
    width = document.integer("head_dim", high=1 << 12, default=default)
    if width % 2:
        raise ModelLoadError(f"config.json: 'head_dim' is {width}; rotary positions take an even one")
    return width


def _eos_token_ids(
    config: Mapping[str, Any], generation: Mapping[str, Any], vocab_size: int
) -> frozenset[int]:
    value = generation.get("eos_token_id", config.get("eos_token_id"))
    ids = value if isinstance(value, list) else [] if value is None else [value]
    for entry in ids:
        if isinstance(entry, bool) or not isinstance(entry, int) or not 0 <= entry < vocab_size:
            raise ModelLoadError(f"'eos_token_id' takes token ids below {vocab_size}, not {entry!r:.40}")
    return frozenset(ids)
