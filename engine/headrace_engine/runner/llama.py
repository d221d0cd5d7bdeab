"""The Llama family: Llama 2 and 3, SmolLM2 and whoever shares their blocks.

RMSNorm, rotary positions, grouped queries, SwiGLU. The projections of query, key and value are one product,
and so are gate and up. Only the tokens that sample reach the output head, the largest matrix of a small
model.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from headrace_engine.runner.batch import Batch
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import Kernels
from headrace_engine.runner.linear import Linear, make_linear
from headrace_engine.runner.rope import rope_tables
from headrace_engine.runner.weights import Weights


@dataclass(frozen=True, slots=True)
class _Layer:
    input_norm: Tensor
    qkv: Linear
    output: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear


class Llama:
    """A loaded model. It keeps nothing between steps: the KV cache belongs to the kernels."""

    def __init__(self, config: ModelConfig, weights: Weights, max_model_len: int) -> None:
        vocabulary, hidden = config.vocab_size, config.hidden_size
        self._vocab_size, self._eps = vocabulary, config.rms_norm_eps
        self._cosines, self._sines = (
            table.to(weights.dtype) for table in rope_tables(config.rope, config.head_dim, max_model_len)
        )
        self._embedding = weights.tensor("model.embed_tokens.weight", vocabulary, hidden)
        self._layers = [_load_layer(config, weights, index) for index in range(config.num_hidden_layers)]
        self._norm = weights.tensor("model.norm.weight", hidden)
        tied = config.tie_word_embeddings
        self._head = make_linear(
            self._embedding if tied else weights.tensor("lm_head.weight", vocabulary, hidden)
        )

    def forward(self, batch: Batch, kernels: Kernels) -> Tensor:
        """Logits [sampled tokens, vocabulary]; stores the step's keys and values on the way."""
        x = functional.embedding(batch.token_ids, self._embedding)
        cosines, sines = self._cosines[batch.positions], self._sines[batch.positions]
        delta: Tensor | None = None
        for index, layer in enumerate(self._layers):
            qkv = layer.qkv(kernels.add_rms_norm(x, delta, layer.input_norm, self._eps))
            delta = layer.output(kernels.attend(index, qkv, cosines, sines, batch))
            gate_up = layer.gate_up(kernels.add_rms_norm(x, delta, layer.post_norm, self._eps))
            delta = layer.down(kernels.swiglu(gate_up))
        if batch.sampled is not None:
            x, delta = x[batch.sampled], None if delta is None else delta[batch.sampled]
        if not len(x):
            return x.new_empty(0, self._vocab_size)
        return self._head(kernels.add_rms_norm(x, delta, self._norm, self._eps))


def _load_layer(config: ModelConfig, weights: Weights, index: int) -> _Layer:
    prefix = f"model.layers.{index}"
    hidden, inner, width = config.hidden_size, config.intermediate_size, config.head_dim
    query, key_value = config.num_attention_heads * width, config.num_key_value_heads * width
    qkv_names = [f"{prefix}.self_attn.{part}_proj.weight" for part in "qkv"]
    gate_up_names = [f"{prefix}.mlp.{part}_proj.weight" for part in ("gate", "up")]
    return _Layer(
        input_norm=weights.tensor(f"{prefix}.input_layernorm.weight", hidden),
        qkv=make_linear(weights.stacked(qkv_names, (query, key_value, key_value), hidden)),
        output=make_linear(weights.tensor(f"{prefix}.self_attn.o_proj.weight", hidden, query)),
        post_norm=weights.tensor(f"{prefix}.post_attention_layernorm.weight", hidden),
        gate_up=make_linear(weights.stacked(gate_up_names, (inner, inner), hidden)),
        down=make_linear(weights.tensor(f"{prefix}.mlp.down_proj.weight", hidden, inner)),
    )
