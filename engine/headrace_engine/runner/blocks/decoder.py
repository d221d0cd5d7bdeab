"""The decoder: embedding, layers, last norm, output head.

Only the tokens that sample, or are scored, reach the head, the largest matrix of a small model. It keeps
nothing between steps: the KV cache belongs to the kernels.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.blocks.layer import Layer
from headrace_engine.runner.blocks.norm import RMSNorm
from headrace_engine.runner.blocks.step import Step
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import Kernels
from headrace_engine.runner.linear import make_linear
from headrace_engine.runner.weights import Weights


class Decoder:
    """A loaded model of any family."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        layers: Sequence[Layer],
        *,
        norm_plus_one: bool = False,
        embedding_scale: float | None = None,
        logit_softcap: float | None = None,
    ) -> None:
        """`embedding_scale` multiplies what is looked up; logits l become softcap * tanh(l / softcap)."""
        vocabulary, hidden = config.vocab_size, config.hidden_size
        self._vocab_size = vocabulary
        self._layers = layers
        self._ropes = dict.fromkeys(layer.attention.rope for layer in layers)
        self._scale = _rounded(embedding_scale, weights.dtype)
        self._softcap = logit_softcap
        self._embedding = weights.tensor("model.embed_tokens.weight", vocabulary, hidden)
        self._norm = RMSNorm.load(weights, "model.norm", hidden, config.rms_norm_eps, plus_one=norm_plus_one)
        tied = config.tie_word_embeddings
        if tied is None:
            tied = not weights.has("lm_head.weight")
        self._head = make_linear(
            self._embedding if tied else weights.tensor("lm_head.weight", vocabulary, hidden)
        )

    def forward(self, batch: Batch, kernels: Kernels) -> Tensor:
        """What the head reads, [wanted tokens, hidden]; stores the step's keys and values on the way."""
        step = Step(batch, kernels, {rope: rope.at(batch.positions) for rope in self._ropes})
        x = functional.embedding(batch.token_ids, self._embedding)
        if self._scale is not None:
            x *= self._scale
        delta: Tensor | None = None
        for layer in self._layers:
            delta = layer(x, delta, step)
        if batch.wanted is not None:
            x, delta = x[batch.wanted], None if delta is None else delta[batch.wanted]
        return self._norm(kernels, x, delta) if len(x) else x

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [tokens, vocabulary] of what `forward` returned."""
        if not len(hidden):
            return hidden.new_empty(0, self._vocab_size)
        logits = self._head(hidden)
        if self._softcap is None:
            return logits
        return self._softcap * torch.tanh(logits / self._softcap)


def _rounded(scale: float | None, dtype: torch.dtype) -> float | None:
    """Models were trained with the scale in their own type."""
    return None if scale is None else float(torch.tensor(scale, dtype=dtype))
