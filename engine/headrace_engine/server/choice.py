"""The choices of one answer: each continues a prompt, which those of one prompt share."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace_engine.core.plan import Finished, Tokens
from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.server.output import Decoder, Delta, Output, ScoredToken, Usage


@dataclass(slots=True)
class Beginning:
    """A prompt as its choices show it, and what the engine tells of it."""

    token_ids: tuple[int, ...]
    decoder: Decoder
    echo: str | None = None
    """What each choice's text begins with; None: its output alone."""
    tells_echo: bool = False
    """Whether the echo's tokens are told of as the output's are."""
    scores: list[TokenLogprobs] = field(default_factory=list)
    """Of the second token and those after it, where they are wanted."""
    cached_tokens: int = 0
    _told: list[ScoredToken] = field(default_factory=list)

    @property
    def num_told(self) -> int:
        return len(self.token_ids) if self.tells_echo else 0

    def told(self) -> list[ScoredToken]:
        """What is told of the echo's tokens, once all are scored."""
        if self.tells_echo and not self._told:
            offset = 0
            for token_id, logprobs in zip(self.token_ids, (None, *self.scores), strict=True):
                self._told.append(ScoredToken(token_id, offset, logprobs))
                offset += len(self.decoder.push([token_id]))
        return self._told


@dataclass(slots=True)
class Choice:
    """One output of one prompt."""

    index: int
    beginning: Beginning
    output: Output
    leads: bool
    """Whether it is the first of its prompt, which the engine computes for all of them."""
    _has_begun: bool = False

    def grow(self, event: Tokens | Finished, delta: Delta) -> None:
        """Adds to `delta` what an event brings; the first has the echo in front."""
        if not self._has_begun and self.beginning.echo is not None:
            delta.text += self.beginning.echo
            delta.echo = self.beginning if self.beginning.tells_echo else None
        self._has_begun = True
        self.output.grow(event, delta)


def usage_of(choices: Sequence[Choice]) -> Usage:
    """Of all choices together; a prompt counts once, however many outputs it has."""
    prompts = [choice.beginning for choice in choices if choice.leads]
    return Usage(
        sum(len(prompt.token_ids) for prompt in prompts),
        sum(choice.output.num_tokens for choice in choices),
        sum(prompt.cached_tokens for prompt in prompts),
    )
