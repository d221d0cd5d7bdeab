"""What a model will take of the memory, told before anything of it is loaded."""

from dataclasses import dataclass

import torch

from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.errors import ModelLoadError

_MIB = 1 << 20
_SAMPLED_ROWS = 64


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The parts, in bytes, and what there is for them. `kv_bytes` is the least that is of use."""

    weight_bytes: int
    kv_bytes: int
    step_bytes: int
    available_bytes: int

    def check(self, max_model_len: int) -> None:
        """Raises:
        ModelLoadError: it does not fit; the message holds every part.
        """
        wanted = self.weight_bytes + self.kv_bytes + self.step_bytes
        if wanted <= self.available_bytes:
            return
        raise ModelLoadError(
            f"the model needs {wanted // _MIB} MiB of memory and {self.available_bytes // _MIB} MiB are "
            f"available: weights {self.weight_bytes // _MIB}, KV cache {self.kv_bytes // _MIB} "
            f"(--max-model-len {max_model_len}), largest step {self.step_bytes // _MIB}. Raise the memory "
            f"limit, take a smaller model{self._what_else()}"
        )

    def _what_else(self) -> str:
        fits_without_kv = self.weight_bytes + self.step_bytes < self.available_bytes
        return ", or lower --max-model-len" if fits_without_kv else ""


def weight_bytes(num_parameters: int, config: ModelConfig, dtype: torch.dtype) -> int:
    """What the loaded weights take. A tied head is packed apart from the embedding, whose rows are looked
    up.
    """
    return (num_parameters + config.vocab_size * config.hidden_size) * dtype.itemsize


def step_bytes(config: ModelConfig, max_num_batched_tokens: int) -> int:
    """An upper bound of what the largest step allocates beside weights and KV."""
    widths = 4 * config.hidden_size + 3 * config.intermediate_size
    widths += 4 * (config.num_attention_heads + 2 * config.num_key_value_heads) * config.head_dim
    return 4 * max_num_batched_tokens * widths + 4 * 8 * config.vocab_size * _SAMPLED_ROWS
