"""What a model will take of the memory, told before anything of it is loaded."""

import math
from dataclasses import dataclass

import torch

from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.errors import ModelLoadError

_MIB = 1 << 20
_SAMPLED_ROWS = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """A flag that decides what a part takes: its value, and the bytes of each unit of it."""

    flag: str
    value: int
    unit_bytes: float


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The parts, in bytes, and what there is for them. `kv_bytes` is the least that is of use."""

    weight_bytes: int
    kv_bytes: int
    step_bytes: int
    available_bytes: int

    def check(self, kv: Asked, step: Asked) -> None:
        """`kv` and `step` are what decides about these parts.

        Raises:
            ModelLoadError: it does not fit; the message holds every part, and each flag that alone helps.
        """
        wanted = self.weight_bytes + self.kv_bytes + self.step_bytes
        if wanted <= self.available_bytes:
            return
        remedies = ["Raise the memory limit", "take a smaller model"]
        for asked in (kv, step):
            most = asked.value - math.ceil((wanted - self.available_bytes) / asked.unit_bytes)
            remedies += [f"lower {asked.flag} to at most {most}"] * (most >= 1)
        raise ModelLoadError(
            f"the model needs {wanted // _MIB} MiB of memory and {self.available_bytes // _MIB} MiB are "
            f"available: weights {self.weight_bytes // _MIB}, KV cache {self.kv_bytes // _MIB} "
            f"({kv.flag} {kv.value}), largest step {self.step_bytes // _MIB} ({step.flag} {step.value}). "
            f"{', '.join(remedies[:-1])}, or {remedies[-1]}"
        )


def weight_bytes(num_parameters: int, config: ModelConfig, dtype: torch.dtype) -> int:
    """What the loaded weights take. A tied head is packed apart from the embedding, whose rows are looked
    up.
    """
    return (num_parameters + config.vocab_size * config.hidden_size) * dtype.itemsize


def token_bytes(config: ModelConfig) -> int:
    """An upper bound of what the largest step allocates for each of its tokens, beside weights and KV."""
    widths = 4 * config.hidden_size + 3 * config.intermediate_size
    widths += 4 * (config.num_attention_heads + 2 * config.num_key_value_heads) * config.head_dim
    return 4 * widths


def step_bytes(config: ModelConfig, max_num_batched_tokens: int) -> int:
    """The same of all of it, what is sampled included."""
    return max_num_batched_tokens * token_bytes(config) + 4 * 8 * config.vocab_size * _SAMPLED_ROWS
