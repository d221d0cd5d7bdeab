"""One choice's output: engine events in, text out.

Joining all text is the same however the events were bundled, so a stream and a whole answer agree. A stop
string ends the choice at the token that completes it; tokens generated after that, before the engine heard
of it, do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace_engine.core.plan import Finished
from headrace_engine.core.request import FinishReason
from headrace_engine.server.stop_strings import StopStrings


class Decoder(Protocol):
    """Turns ids into text, holding back bytes that are no whole character yet."""

    def push(self, ids: Sequence[int]) -> str: ...
    def flush(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


class Output:
    """The text of one request as it grows."""

    def __init__(
        self, decoder: Decoder, *, num_prompt_tokens: int, stop: Sequence[str] = (), min_tokens: int = 0
    ) -> None:
        self._decoder = decoder
        self._stop = StopStrings(stop)
        self._has_stop = bool(stop)
        self._min_tokens = min_tokens
        self._num_prompt_tokens = num_prompt_tokens
        self._num_tokens = 0
        self.cached_tokens = 0
        self.finished: FinishReason | None = None

    @property
    def usage(self) -> Usage:
        return Usage(self._num_prompt_tokens, self._num_tokens, self.cached_tokens)

    def tokens(self, ids: Sequence[int]) -> str:
        """The text that these ids add. Sets `finished` when a stop string is complete."""
        if self.finished is not None:
            return ""
        if not self._has_stop:
            self._num_tokens += len(ids)
            return self._decoder.push(ids)
        text = ""
        for token_id in ids:
            self._num_tokens += 1
            piece = self._decoder.push([token_id])
            text += piece if self._num_tokens <= self._min_tokens else self._searched(piece)
            if self.finished is not None:
                break
        return text

    def end(self, event: Finished) -> str:
        """The engine ended the request; what was held back is text after all."""
        if self.finished is not None:
            return ""
        if event.stop_token_id is not None:
            self._num_tokens += 1
        text = self._searched(self._decoder.flush())
        if self.finished is None:
            text += self._stop.flush()
            self.finished = event.reason
        return text

    def _searched(self, piece: str) -> str:
        text = self._stop.push(piece)
        if self._stop.matched is not None:
            self.finished = FinishReason.STOP
        return text
