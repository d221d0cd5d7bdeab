"""What a program gets back, and how it grows while the engine works."""

from dataclasses import dataclass

from headrace_engine.core.plan import Event, Finished, Scheduled, Tokens
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.server.output import Output


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One output of a prompt."""

    index: int
    text: str
    token_ids: tuple[int, ...]
    """The stop id included, if one ended the output."""
    finish_reason: str


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What became of one prompt. vLLM's names."""

    prompt: str | None
    """None for a prompt of token ids, and for a chat."""
    prompt_token_ids: tuple[int, ...]
    outputs: tuple[CompletionOutput, ...]
    num_cached_tokens: int


class Answer:
    """Takes the events of one request."""

    def __init__(self, request: Request, output: Output, prompt: str | None) -> None:
        self.request = request
        self._output = output
        self._prompt = prompt
        self._text = ""
        self._token_ids: list[int] = []

    @property
    def finish_reason(self) -> FinishReason | None:
        """Set by the end, or by a stop string before the engine knows of it."""
        return self._output.finished

    def grow(self, event: Event) -> str:
        """The text that an event adds."""
        text = ""
        match event:
            case Scheduled():
                self._output.cached_tokens = event.cached_tokens
            case Tokens():
                self._token_ids += event.token_ids
                text = self._output.tokens(event.token_ids)
            case Finished():
                if event.stop_token_id is not None:
                    self._token_ids.append(event.stop_token_id)
                text = self._output.end(event)
        self._text += text
        return text

    def result(self) -> RequestOutput:
        """The whole answer, once it has a finish reason."""
        assert self.finish_reason is not None
        usage = self._output.usage
        token_ids = tuple(self._token_ids[: usage.completion_tokens])
        output = CompletionOutput(0, self._text, token_ids, self.finish_reason.value)
        prompt_token_ids = self.request.prompt_token_ids
        return RequestOutput(self._prompt, prompt_token_ids, (output,), usage.cached_tokens)
