"""The architectures that can be served, by the name that `config.json` gives them.

A family is one module of `models` with one function, which puts the shared blocks together and reads the keys
of the configuration that only this family has.
"""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.kernels import Kernels
from headrace_engine.runner.models.gemma2 import gemma2
from headrace_engine.runner.models.gemma3 import gemma3
from headrace_engine.runner.models.llama import llama
from headrace_engine.runner.models.mistral import mistral
from headrace_engine.runner.models.qwen2 import qwen2
from headrace_engine.runner.models.qwen3 import qwen3
from headrace_engine.runner.models.smollm3 import smollm3
from headrace_engine.runner.weights import Weights


class Model(Protocol):
    """A loaded model of some family."""

    def forward(self, batch: Batch, kernels: Kernels) -> Tensor:
        """The last hidden states [wanted tokens, hidden] of one step."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [tokens, vocabulary] of hidden states."""
        ...


Family = Callable[[ModelConfig, Weights, int], Model]
"""Builds a model from its configuration, its weights and the longest context that will be served."""

FAMILIES: dict[str, Family] = {
    "Gemma2ForCausalLM": gemma2,
    "Gemma3ForCausalLM": gemma3,
    "LlamaForCausalLM": llama,
    "MistralForCausalLM": mistral,
    "Qwen2ForCausalLM": qwen2,
    "Qwen3ForCausalLM": qwen3,
    "SmolLM3ForCausalLM": smollm3,
}


def family(architecture: str) -> Family:
    """The function that builds models of an architecture.

    Raises:
        ModelLoadError: none does.
    """
    try:
        return FAMILIES[architecture]
    except KeyError:
        raise ModelLoadError(
            f"architecture {architecture!r:.80} is not supported; supported are {', '.join(sorted(FAMILIES))}"
        ) from None
