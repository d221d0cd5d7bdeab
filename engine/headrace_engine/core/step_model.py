"""How long a step takes, as a function of the work in it.

    T = base + max(weights, token * tokens) + squared token * tokens^2 + row * sampled rows
        + context * decode context + attention * prefill attention

The maximum is the roofline of the linear layers: reading the weights, or computing with them; the square
stands in for its bend where `weights` is not known apart. A sampled row has logits and a sampler beyond that.
Decode attention reads the KV of its whole context; a prefill chunk of c tokens after h computed ones attends
to c * (h + c / 2) of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepWork:
    """What is in a step, as far as its time depends on it."""

    tokens: int = 0
    decode_context_tokens: int = 0
    """The sum of the decodes' contexts."""
    prefill_attention_tokens: float = 0.0
    """The sum of c * (h + c / 2) over the prefill chunks."""
    sampled_rows: int = 0
    """Tokens that are sampled after."""

    def with_chunk(self, computed_tokens: int, chunk_tokens: int, sampled_rows: int = 0) -> "StepWork":
        """This work and a prefill chunk more."""
        return StepWork(
            self.tokens + chunk_tokens,
            self.decode_context_tokens,
            self.prefill_attention_tokens + chunk_tokens * (computed_tokens + chunk_tokens / 2),
            self.sampled_rows + sampled_rows,
        )


NO_WORK = StepWork()


@dataclass(frozen=True, slots=True)
class StepModel:
    """The coefficients, in seconds; all are at least 0."""

    base_s: float
    weights_s: float
    token_s: float
    context_token_s: float = 0.0
    attention_token_s: float = 0.0
    sampled_row_s: float = 0.0
    squared_token_s: float = 0.0

    def predict_s(self, work: StepWork) -> float:
        """The time of a step with this work."""
        return (
            self.base_s
            + max(self.weights_s, self.token_s * work.tokens)
            + self.context_token_s * work.decode_context_tokens
            + self.attention_token_s * work.prefill_attention_tokens
            + self.sampled_row_s * work.sampled_rows
            + self.squared_token_s * work.tokens * work.tokens
        )


@dataclass(frozen=True, slots=True)
class Forecast:
    """A model, and how far it can be relied on."""

    model: StepModel
    reach: StepWork | None = None
    """The most tokens and prefill attention that the model is believed about; None is any number."""
    wants_decodes_alone: bool = False
    """Whether a step without prompts would teach what the decodes of a step cost, which is not known well."""

    def chunk_within(self, work: StepWork, computed_tokens: int, most_tokens: int, budget_s: float) -> int:
        """The most tokens, up to `most_tokens`, of a prefill that keep the step within `budget_s`."""
        fits, too_many = 0, most_tokens + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self._fits(work.with_chunk(computed_tokens, middle), budget_s):
                fits = middle
            else:
                too_many = middle
        return fits

    def _fits(self, work: StepWork, budget_s: float) -> bool:
        reach = self.reach
        if reach is not None and (
            work.tokens > reach.tokens or work.prefill_attention_tokens > reach.prefill_attention_tokens
        ):
            return False
        return self.model.predict_s(work) <= budget_s
