"""How a program asks for tokens, in vLLM's words. Checked by the rules of the HTTP API, and by no others."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """None takes the API's default: temperature 1, 16 tokens of a completion, all that is left for a chat."""

    n: int | None = None
    """Outputs of each prompt."""
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    """0 is greedy."""
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Mapping[int, float] | None = None
    bad_words: Sequence[str] | None = None
    allowed_token_ids: Sequence[int] | None = None
    seed: int | None = None
    """Equal seeds give equal tokens, whatever else is in the batch."""
    stop: str | Sequence[str] | None = None
    """Strings that end the output, and are not part of it unless `include_stop_str_in_output`."""
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    truncate_prompt_tokens: int | None = None
    """Keep so many of the prompt's last tokens."""
    logprobs: int | None = None
    """Tell how likely each token was, and this many of the likeliest."""
    prompt_logprobs: int | None = None
    """The same of the prompt's tokens."""

    def body(self) -> dict[str, Any]:
        """The parameters of an API call that are not left to their default."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.logit_bias is not None:
            given["logit_bias"] = {str(token_id): bias for token_id, bias in self.logit_bias.items()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    def chat_body(self) -> dict[str, Any]:
        """The same for a chat, which asks for log probabilities with two parameters."""
        body = self.body()
        if self.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": self.logprobs}
        return body
