"""How a program asks for tokens, in vLLM's words. Checked by the rules of the HTTP API, and by no others."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """None takes the API's default: temperature 1, 16 tokens of a completion, all that is left for a chat."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    """0 is greedy."""
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    """Equal seeds give equal tokens, whatever else is in the batch."""
    stop: str | Sequence[str] | None = None
    """Strings that end the output, and are not part of it."""
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool | None = None

    def body(self) -> dict[str, Any]:
        """The parameters of an API call that are not left to their default."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
