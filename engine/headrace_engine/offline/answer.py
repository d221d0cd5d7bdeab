"""What a program gets back, and how it grows while the engine works."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace_engine.core.plan import Event, Finished, PromptLogprobs, Scheduled, Tokens
from headrace_engine.core.request import FinishReason
from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.server.choice import Beginning, Choice
from headrace_engine.server.output import Delta
from headrace_engine.server.spelling import Spelling


@dataclass(frozen=True, slots=True)
class Logprob:
    """How likely a token was where it stood."""

    logprob: float
    rank: int
    """1 is the likeliest."""
    decoded_token: str


Logprobs = Mapping[int, Logprob]
"""Of a token and of the likeliest in its place, by id."""


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One output of a prompt."""

    index: int
    text: str
    token_ids: tuple[int, ...]
    """The stop id included, if one ended the output."""
    finish_reason: str
    cumulative_logprob: float | None = None
    """Of all its tokens; None where they were not asked for."""
    logprobs: tuple[Logprobs, ...] | None = None
    """One for each of `token_ids`."""


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What became of one prompt. vLLM's names."""

    prompt: str | None
    """None for a prompt of token ids, and for a chat."""
    prompt_token_ids: tuple[int, ...]
    outputs: tuple[CompletionOutput, ...]
    num_cached_tokens: int
    prompt_logprobs: tuple[Logprobs | None, ...] | None = None
    """One for each of `prompt_token_ids`; None for the first, which nothing stands before."""


class Answer:
    """Takes the events of one output's request."""

    def __init__(self, choice: Choice, spelling: Spelling, *, tells_logprobs: bool) -> None:
        self._choice = choice
        self._spelling = spelling
        self._tells_logprobs = tells_logprobs
        self._text = ""
        self._token_ids: list[int] = []
        self._logprobs: list[Logprobs] = []

    @property
    def beginning(self) -> Beginning:
        return self._choice.beginning

    @property
    def finish_reason(self) -> FinishReason | None:
        """Set by the end, or by a stop string before the engine knows of it."""
        return self._choice.output.finished

    def grow(self, event: Event) -> str:
        """The text that an event adds."""
        delta = Delta(self._choice.index)
        match event:
            case Scheduled() if self._choice.leads:
                self.beginning.cached_tokens = event.cached_tokens
            case PromptLogprobs():
                self.beginning.scores += event.logprobs
            case Tokens() | Finished():
                self._choice.grow(event, delta)
        self._text += delta.text
        self._token_ids += delta.token_ids
        self._logprobs += [
            named(self._spelling, token.token_id, token.logprobs) for token in delta.scored if token.logprobs
        ]
        return delta.text

    def output(self, index: int) -> CompletionOutput:
        """The whole output, once it has a finish reason."""
        assert self.finish_reason is not None
        logprob, logprobs = self._choice.output.cumulative_logprob, tuple(self._logprobs)
        return CompletionOutput(
            index,
            self._text,
            tuple(self._token_ids),
            self.finish_reason.value,
            logprob if self._tells_logprobs else None,
            logprobs if self._tells_logprobs else None,
        )


def named(spelling: Spelling, token_id: int, told: TokenLogprobs) -> Logprobs:
    """What was told of a token, by id: the token first, then the likeliest in falling order."""
    tops = zip(told.top_ids, told.top_logprobs, range(1, len(told.top_ids) + 1), strict=True)
    return {
        each: Logprob(logprob, rank, spelling.name(each))
        for each, logprob, rank in ((token_id, told.logprob, told.rank), *tops)
    }


def of_prompt(spelling: Spelling, beginning: Beginning) -> tuple[Logprobs | None, ...]:
    """What was told of a prompt's tokens."""
    told: Sequence[tuple[int, TokenLogprobs]] = list(
        zip(beginning.token_ids[1:], beginning.scores, strict=True)
    )
    return (None, *(named(spelling, token_id, logprobs) for token_id, logprobs in told))
