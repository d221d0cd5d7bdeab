"""A decoder layer: attention and MLP with the norms around them.

`x` is the residual stream, `delta` what the block before it has still to add; each norm adds it in passing.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headrace_engine.runner.blocks.attention import Attention
from headrace_engine.runner.blocks.mlp import GatedMLP
from headrace_engine.runner.blocks.norm import RMSNorm
from headrace_engine.runner.blocks.step import Step
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.weights import Weights


class Layer(Protocol):
    """What a decoder runs one after the other."""

    @property
    def attention(self) -> Attention: ...

    def __call__(self, x: Tensor, delta: Tensor | None, step: Step) -> Tensor:
        """Adds `delta` and the attention to `x`, and returns what the MLP has to add."""
        ...


@dataclass(frozen=True, slots=True)
class PreNormLayer:
    """A norm before the attention and one before the MLP: Llama and its kin."""

    attention: Attention
    mlp: GatedMLP
    attention_norm: RMSNorm
    mlp_norm: RMSNorm

    @classmethod
    def load(cls, config: ModelConfig, weights: Weights, attention: Attention) -> "PreNormLayer":
        layer, hidden, eps = attention.layer, config.hidden_size, config.rms_norm_eps
        prefix = f"model.layers.{layer}"
        return cls(
            attention=attention,
            mlp=GatedMLP.load(config, weights, layer),
            attention_norm=RMSNorm.load(weights, f"{prefix}.input_layernorm", hidden, eps),
            mlp_norm=RMSNorm.load(weights, f"{prefix}.post_attention_layernorm", hidden, eps),
        )

    def __call__(self, x: Tensor, delta: Tensor | None, step: Step) -> Tensor:
        delta = self.attention(self.attention_norm(step.kernels, x, delta), step)
        return self.mlp(self.mlp_norm(step.kernels, x, delta), step)


@dataclass(frozen=True, slots=True)
class SandwichNormLayer:
    """A norm before and one after each of attention and MLP: Gemma."""

    attention: Attention
    mlp: GatedMLP
    before_attention: RMSNorm
    after_attention: RMSNorm
    before_mlp: RMSNorm
    after_mlp: RMSNorm

    @classmethod
    def load(
        cls, config: ModelConfig, weights: Weights, attention: Attention, mlp: GatedMLP
    ) -> "SandwichNormLayer":
        prefix, hidden, eps = f"model.layers.{attention.layer}", config.hidden_size, config.rms_norm_eps
        norms = [
            RMSNorm.load(weights, f"{prefix}.{name}_layernorm", hidden, eps, plus_one=True)
            for name in ("input", "post_attention", "pre_feedforward", "post_feedforward")
        ]
        return cls(attention, mlp, *norms)

    def __call__(self, x: Tensor, delta: Tensor | None, step: Step) -> Tensor:
        kernels = step.kernels
        delta = self.attention(self.before_attention(kernels, x, delta), step)
        delta = self.mlp(self.before_mlp(kernels, x, self.after_attention(kernels, delta)), step)
        return self.after_mlp(kernels, delta)
