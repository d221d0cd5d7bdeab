"""The architectures that can be served, by the name that `config.json` gives them.

A family is one module with a class that is built from (config, weights, max_model_len) and has `forward`.
"""

from typing import Protocol

from torch import Tensor

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.kernels import Kernels
from headrace_engine.runner.llama import Llama
from headrace_engine.runner.weights import Weights


class Model(Protocol):
    """A loaded model of some family."""

    def __init__(self, config: ModelConfig, weights: Weights, max_model_len: int) -> None: ...

    def forward(self, batch: Batch, kernels: Kernels) -> Tensor:
        """Logits [sampled tokens, vocabulary] of one step."""
        ...


FAMILIES: dict[str, type[Model]] = {"LlamaForCausalLM": Llama}


def family(architecture: str) -> type[Model]:
    """The class that serves an architecture.

    Raises:
        ModelLoadError: none does.
    """
    try:
        return FAMILIES[architecture]
    except KeyError:
        raise ModelLoadError(
            f"architecture {architecture!r:.80} is not supported; supported are {', '.join(sorted(FAMILIES))}"
        ) from None
