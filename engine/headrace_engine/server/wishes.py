"""What a client wants told of an answer beside its text."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headrace_engine.server.parameters import ChatParameters, GenerationParameters
from headrace_engine.server.spelling import (
    ChatLogprobs,
    CompletionLogprobs,
    Logprobs,
    NoLogprobs,
    Spelling,
    Vocabulary,
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """None and False: nothing."""

    spelling: Spelling
    new_logprobs: Callable[[], Logprobs]
    prompt_logprobs: int | None
    token_ids: bool

    @classmethod
    def of(cls, parameters: GenerationParameters, vocabulary: Vocabulary) -> "Wishes":
        spelling = Spelling(vocabulary, as_ids=bool(parameters.return_tokens_as_token_ids))
        return cls(
            spelling,
            _logprobs(parameters, spelling),
            parameters.prompt_logprobs,
            bool(parameters.return_token_ids),
        )


def _logprobs(parameters: GenerationParameters, spelling: Spelling) -> Callable[[], Logprobs]:
    if parameters.num_logprobs is None:
        return NoLogprobs
    if isinstance(parameters, ChatParameters):
        return partial(ChatLogprobs, spelling)
    return partial(CompletionLogprobs, spelling, parameters.num_logprobs)
