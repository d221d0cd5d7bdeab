"""Root mean square norm (Zhang and Sennrich, arXiv 1910.07467)."""

from dataclasses import dataclass

from torch import Tensor

from headrace_engine.runner.kernels import Kernels
from headrace_engine.runner.weights import Weights


@dataclass(frozen=True, slots=True)
class RMSNorm:
    """`weight` scales what is normed. Some families store its distance from one, which loading adds."""

    weight: Tensor
    eps: float

    @classmethod
    def load(
        cls, weights: Weights, name: str, width: int, eps: float, *, plus_one: bool = False
    ) -> "RMSNorm":
        return cls(weights.tensor(f"{name}.weight", width, add=1.0 if plus_one else 0.0), eps)

    def __call__(self, kernels: Kernels, x: Tensor, delta: Tensor | None = None) -> Tensor:
        """The norm of `x`, to which `delta` is added in place first."""
        return kernels.add_rms_norm(x, delta, self.weight, self.eps)
