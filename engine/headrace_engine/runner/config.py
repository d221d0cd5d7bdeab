"""A model's `config.json`, read by an allow-list of keys and checked before anything is allocated.

Only what is parsed here is ever looked at; a value of the wrong type or outside sane bounds refuses the
model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.model_directory import read_json, read_json_if_there


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding: base frequency and how it is scaled (`default`, `linear` or `llama3`)."""

    theta: float
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 0


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
    rope: Rope
    max_position_embeddings: int
    tie_word_embeddings: bool
    eos_token_ids: frozenset[int]

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
        architectures = config.get("architectures")
        if (
            not isinstance(architectures, list)
            or len(architectures) != 1
            or not isinstance(architectures[0], str)
        ):
            raise ModelLoadError("config.json names no single architecture; `architectures` takes one string")
        _refuse_unsupported(config)
        hidden_size = _integer(config, "hidden_size", high=1 << 17)
        num_heads = _integer(config, "num_attention_heads", high=1 << 12)
        num_kv_heads = _integer(config, "num_key_value_heads", high=1 << 12, default=num_heads)
        if num_heads % num_kv_heads:
            raise ModelLoadError(
                f"config.json: {num_heads} attention heads do not divide over {num_kv_heads} KV heads"
            )
        vocab_size = _integer(config, "vocab_size", high=1 << 24)
        return cls(
            architecture=architectures[0],
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=_integer(config, "intermediate_size", high=1 << 20),
            num_hidden_layers=_integer(config, "num_hidden_layers", high=1 << 10),
            num_attention_heads=num_heads,
            num_key_value_heads=num_kv_heads,
            head_dim=_integer(config, "head_dim", high=1 << 12, default=hidden_size // num_heads),
            rms_norm_eps=_number(config, "rms_norm_eps", default=1e-6),
            rope=_rope(config),
            max_position_embeddings=_integer(config, "max_position_embeddings", high=1 << 26),
            tie_word_embeddings=config.get("tie_word_embeddings") is True,
            eos_token_ids=_eos_token_ids(config, generation, vocab_size),
        )


def _integer(config: Mapping[str, Any], key: str, *, high: int, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise ModelLoadError(f"config.json: {key!r} takes an integer from 1 to {high}, not {value!r:.80}")
    return value


def _number(config: Mapping[str, Any], key: str, *, default: float | None = None) -> float:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ModelLoadError(f"config.json: {key!r} takes a positive number, not {value!r:.80}")
    return float(value)


def _refuse_unsupported(config: Mapping[str, Any]) -> None:
    if config.get("quantization_config"):
        raise ModelLoadError("config.json: quantized checkpoints are not read yet; use the unquantized model")
    if (activation := config.get("hidden_act", "silu")) != "silu":
        raise ModelLoadError(f"config.json: 'hidden_act' {activation!r:.40} is not supported; only 'silu' is")
    for key in ("attention_bias", "mlp_bias"):
        if config.get(key):
            raise ModelLoadError(f"config.json: {key!r} is not supported; such a model cannot be served yet")


def _rope(config: Mapping[str, Any]) -> Rope:
    """Both spellings: `rope_parameters` (transformers 5) and `rope_theta` with `rope_scaling` (before)."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(parameters, Mapping):
        raise ModelLoadError("config.json: 'rope_parameters' takes an object")
    theta = _number(
        {"rope_theta": parameters.get("rope_theta", config.get("rope_theta"))}, "rope_theta", default=1e4
    )
    match parameters.get("rope_type", parameters.get("type", "default")):
        case "default":
            return Rope(theta)
        case "linear":
            return Rope(theta, "linear", _number(parameters, "factor"))
        case "llama3":
            return Rope(
                theta,
                "llama3",
                _number(parameters, "factor"),
                _number(parameters, "low_freq_factor"),
                _number(parameters, "high_freq_factor"),
                _integer(parameters, "original_max_position_embeddings", high=1 << 26),
            )
        case kind:
            raise ModelLoadError(
                f"config.json: rope type {kind!r:.40} is not supported; default, linear and llama3 are"
            )


def _eos_token_ids(
    config: Mapping[str, Any], generation: Mapping[str, Any], vocab_size: int
) -> frozenset[int]:
    value = generation.get("eos_token_id", config.get("eos_token_id"))
    ids = value if isinstance(value, list) else [] if value is None else [value]
    for entry in ids:
        if isinstance(entry, bool) or not isinstance(entry, int) or not 0 <= entry < vocab_size:
            raise ModelLoadError(f"'eos_token_id' takes token ids below {vocab_size}, not {entry!r:.40}")
    return frozenset(ids)
