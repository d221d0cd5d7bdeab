"""How the next token of a request is chosen, and what is told of the choice. Values alone, no state.

The model's logits are steered (allowed ids, bans, biases, penalties, in this order), divided by the
temperature, filtered by `min_p`, `top_k` and `top_p`, and drawn from. Log probabilities are those of the
model's own logits, before any of it. Order and meaning are vLLM's.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Steering:
    """What changes the logits of one request."""

    repetition_penalty: float = 1.0
    """Divides the positive and multiplies the negative logits of tokens in prompt or output."""
    presence_penalty: float = 0.0
    """Taken from the logit of each token in the output."""
    frequency_penalty: float = 0.0
    """Taken from it once for each time that it is there."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(id, what is added to its logit), each id once."""
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Sequences that the output must not contain: the last id of one is banned where the others are there."""
    allowed_token_ids: tuple[int, ...] = ()
    """Nothing else is ever chosen; empty: no bound."""
    min_tokens: int = 0
    late_token_ids: tuple[int, ...] = ()
    """Banned until there are `min_tokens` of output: those that would end it."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. Temperature 0 is greedy; `top_k` 0, `top_p` 1 and `min_p` 0 switch their
    filter off.

    The choice depends on the tokens before it and on (seed, position), never on what else is in the batch.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    """Least probability, as a share of the likeliest token's."""
    seed: int = 0
    """Any integer of 64 bits."""
    steering: Steering | None = None
    logprobs: int | None = None
    """Tell how likely each chosen token was, and this many of the likeliest; None: nothing."""
    prompt_logprobs: int | None = None
    """The same of the prompt's own tokens, but for the first, which nothing stands before."""


PLAIN = Sampling()


class TokenLogprobs(NamedTuple):
    """How likely a token was where it stands: natural logarithms of the model's own distribution."""

    logprob: float
    rank: int
    """1 is the likeliest."""
    top_ids: tuple[int, ...] = ()
    """The likeliest tokens, in falling order; the token itself need not be among them."""
    top_logprobs: tuple[float, ...] = ()
