"""The gated MLP (Shazeer, arXiv 2002.05202). Gate and up are one product."""

from dataclasses import dataclass

from torch import Tensor

from headrace_engine.runner.blocks.step import Step
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import Activation
from headrace_engine.runner.linear import Linear, make_linear
from headrace_engine.runner.weights import Weights


@dataclass(frozen=True, slots=True)
class GatedMLP:
    """down(activation(gate(x)) * up(x))."""

    gate_up: Linear
    down: Linear
    activation: Activation

    @classmethod
    def load(
        cls, config: ModelConfig, weights: Weights, layer: int, activation: Activation = "silu"
    ) -> "GatedMLP":
        prefix, hidden, inner = f"model.layers.{layer}.mlp", config.hidden_size, config.intermediate_size
        names = [f"{prefix}.{part}_proj.weight" for part in ("gate", "up")]
        return cls(
            gate_up=make_linear(weights.stacked(names, (inner, inner), hidden)),
            down=make_linear(weights.tensor(f"{prefix}.down_proj.weight", hidden, inner)),
            activation=activation,
        )

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        return self.down(step.kernels.gate(self.gate_up(x), self.activation))
