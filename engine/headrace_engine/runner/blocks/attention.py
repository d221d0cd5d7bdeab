"""Grouped-query attention (Ainslie et al., arXiv 2305.13245): the projections around the paged kernel.

Query, key and value are one product, with or without biases; query and key heads may be normed one by one.
"""

from dataclasses import dataclass

from torch import Tensor

from headrace_engine.runner.blocks.norm import RMSNorm
from headrace_engine.runner.blocks.step import Step
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.kernels import AttentionRule
from headrace_engine.runner.linear import Linear, make_linear
from headrace_engine.runner.rope import RotaryTables
from headrace_engine.runner.weights import Weights


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """The norms of query heads and of key heads."""

    query: RMSNorm
    key: RMSNorm

    @classmethod
    def load(
        cls, config: ModelConfig, weights: Weights, layer: int, *, plus_one: bool = False
    ) -> "HeadNorms":
        query, key = (
            RMSNorm.load(
                weights,
                f"model.layers.{layer}.self_attn.{part}_norm",
                config.head_dim,
                config.rms_norm_eps,
                plus_one=plus_one,
            )
            for part in "qk"
        )
        return cls(query, key)


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one layer."""

    layer: int
    qkv: Linear
    output: Linear
    rope: RotaryTables
    rule: AttentionRule
    head_norms: HeadNorms | None

    @classmethod
    def load(
        cls,
        config: ModelConfig,
        weights: Weights,
        layer: int,
        *,
        rope: RotaryTables,
        rule: AttentionRule | None = None,
        qkv_bias: bool = False,
        output_bias: bool = False,
        head_norms: HeadNorms | None = None,
    ) -> "Attention":
        """Without a `rule` scores are scaled by the root of the head's width and everything is seen."""
        prefix, hidden, width = f"model.layers.{layer}.self_attn", config.hidden_size, config.head_dim
        query, key_value = config.num_attention_heads * width, config.num_key_value_heads * width
        rows, names = (query, key_value, key_value), [f"{prefix}.{part}_proj" for part in "qkv"]
        matrix = weights.stacked([f"{name}.weight" for name in names], rows, hidden)
        bias = weights.stacked([f"{name}.bias" for name in names], rows) if qkv_bias else None
        added = weights.tensor(f"{prefix}.o_proj.bias", hidden) if output_bias else None
        return cls(
            layer=layer,
            qkv=make_linear(matrix, bias),
            output=make_linear(weights.tensor(f"{prefix}.o_proj.weight", hidden, query), added),
            rope=rope,
            rule=rule or AttentionRule(width**-0.5),
            head_norms=head_norms,
        )

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        qkv = self.qkv(x)
        if (norms := self.head_norms) is not None:
            step.kernels.norm_heads(qkv, norms.query.weight, norms.key.weight, norms.query.eps)
        return self.output(
            step.kernels.attend(self.layer, qkv, step.rotations[self.rope], step.batch, self.rule)
        )
