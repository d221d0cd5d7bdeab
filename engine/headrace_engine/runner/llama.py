"""The Llama family: Llama 2 and 3, SmolLM2 and whoever shares their blocks.

RMSNorm, rotary positions, grouped queries, SwiGLU. The projections of query, key and value are one product, and so
are gate and up. Only the rows that sample reach the output head, which is the largest matrix of a small model.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from headrace_engine.runner.attention import Attention
from headrace_engine.runner.batch import Batch
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.linear import Linear, make_linear
from headrace_engine.runner.rope import rope_tables, rotate
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
    """A loaded model. Stateless: the KV cache belongs to the attention backend that is passed in."""

    def __init__(self, config: ModelConfig, weights: Weights, max_model_len: int) -> None:
        self._config = config
        self._cosines, self._sines = (
            table.to(weights.dtype) for table in rope_tables(config.rope, config.head_dim, max_model_len)
        )
        self._embedding = weights.tensor("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
        self._layers = [_load_layer(config, weights, index) for index in range(config.num_hidden_layers)]
        self._norm = weights.tensor("model.norm.weight", config.hidden_size)
        self._head = make_linear(
            self._embedding
            if config.tie_word_embeddings
            else weights.tensor("lm_head.weight", config.vocab_size, config.hidden_size)
        )

    def forward(self, batch: Batch, attention: Attention) -> Tensor:
        """Logits [sampled tokens, vocabulary]; stores the step's keys and values on the way."""
        x = functional.embedding(batch.token_ids, self._embedding)
        cosines, sines = self._cosines[batch.positions, None], self._sines[batch.positions, None]
        for index, layer in enumerate(self._layers):
            x = x + layer.output(self._attend(index, layer, x, cosines, sines, batch, attention))
            x = x + self._feed_forward(layer, x)
        if batch.sampled is not None:
            x = x[batch.sampled]
        if not len(x):
            return x.new_empty(0, self._config.vocab_size)
        return self._head(self._normalize(x, self._norm))

    def _attend(
        self,
        index: int,
        layer: _Layer,
        x: Tensor,
        cosines: Tensor,
        sines: Tensor,
        batch: Batch,
        attention: Attention,
    ) -> Tensor:
        heads, kv_heads, width = (
            self._config.num_attention_heads,
            self._config.num_key_value_heads,
            self._config.head_dim,
        )
        qkv = layer.qkv(self._normalize(x, layer.input_norm)).view(-1, heads + 2 * kv_heads, width)
        rotated = rotate(qkv[:, : heads + kv_heads], cosines, sines)
        return attention.attend(
            index, rotated[:, :heads], rotated[:, heads:], qkv[:, heads + kv_heads :], batch
        )

    def _feed_forward(self, layer: _Layer, x: Tensor) -> Tensor:
        gate, up = layer.gate_up(self._normalize(x, layer.post_norm)).chunk(2, dim=-1)
        return layer.down(functional.silu(gate) * up)

    def _normalize(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), weight, self._config.rms_norm_eps)


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
