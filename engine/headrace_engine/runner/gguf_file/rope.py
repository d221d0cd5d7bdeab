"""Rotary positions of a GGUF file, in Hugging Face's words.

Llama 3's scaling stands in GGUF as a tensor of divisors, one a frequency. They are recognized by computing
them again; others are refused, for they would be served wrong.
"""

from typing import Any

import numpy as np

from headrace_engine.runner.config_document import ConfigDocument
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.gguf_file.metadata import GGUFModel
from headrace_engine.runner.rope import inverse_frequencies
from headrace_engine.runner.rope_config import Rope, read_rope

FREQUENCIES = "rope_freqs.weight"
_LLAMA3_CONTEXT = 8192


def rope_parameters(model: GGUFModel, head_dim: int) -> dict[str, Any]:
    """`rope_parameters` of config.json.

    Raises:
        ModelLoadError: a scaling that is not known.
    """
    theta = float(model.hyperparameter("rope.freq_base", 1e4))
    if FREQUENCIES in model.tensors:
        return _llama3(model, theta, head_dim)
    kind = model.hyperparameter("rope.scaling.type", "none")
    if kind == "none":
        return {"rope_theta": theta, "rope_type": "default"}
    if kind == "linear":
        factor = float(model.hyperparameter("rope.scaling.factor"))
        return {"rope_theta": theta, "rope_type": "linear", "factor": factor}
    raise ModelLoadError(f"{model.path} scales rotary positions by {kind!r:.40}, which is not supported")


def _llama3(model: GGUFModel, theta: float, head_dim: int) -> dict[str, Any]:
    divisors = np.asarray(model.tensors[FREQUENCIES].data, np.float32)
    parameters = {
        "rope_theta": theta,
        "rope_type": "llama3",
        "factor": float(divisors.max()),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": _LLAMA3_CONTEXT,
    }
    scaled = read_rope(ConfigDocument({"rope_parameters": parameters}))
    expected = inverse_frequencies(Rope(theta), head_dim) / inverse_frequencies(scaled, head_dim)
    if divisors.shape != tuple(expected.shape) or not np.allclose(divisors, expected.numpy(), rtol=1e-3):
        raise ModelLoadError(
            f"{model.path} scales rotary positions otherwise than Llama 3: use the safetensors directory"
        )
    return parameters
