"""One choice's output: engine events in, text and what is told of its tokens out.

Joining all text is the same however the events were bundled, so a stream and a whole answer agree. A stop
string ends the choice at the token that completes it; tokens generated after that, before the engine heard
of it, do not count. Every token that counts is told of, those of a stop string and a stop id included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace_engine.core.plan import Finished, Tokens
from headrace_engine.core.request import FinishReason
from headrace_engine.core.sampling import TokenLogprobs
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


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of a choice, and how likely it was."""

    token_id: int
    offset: int
    """Where its first character stands in the choice's text."""
    logprobs: TokenLogprobs | None
    """None for the first token of a prompt, which nothing stands before."""


class Echo(Protocol):
    """What is told of a prompt in front of a choice. It may be much, so it is made where it is written."""

    @property
    def num_told(self) -> int: ...
    def told(self) -> list[ScoredToken]: ...


@dataclass(slots=True)
class Delta:
    """What is new of one choice. The last delta of a choice has a finish reason, and only that one."""

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    scored: list[ScoredToken] = field(default_factory=list)
    echo: Echo | None = None
    finish_reason: FinishReason | None = None

    @property
    def num_told(self) -> int:
        """Tokens to tell of."""
        return len(self.scored) + (self.echo.num_told if self.echo else 0)

    def told(self) -> list[ScoredToken]:
        return [*self.echo.told(), *self.scored] if self.echo else self.scored


class Output:
    """The text of one request as it grows."""

    def __init__(
        self,
        decoder: Decoder,
        *,
        stop: Sequence[str] = (),
        includes_stop: bool = False,
        min_tokens: int = 0,
        offset: int = 0,
    ) -> None:
        """`offset` characters stand before it in its choice."""
        self._decoder = decoder
        self._stop = StopStrings(stop)
        self._has_stop = bool(stop)
        self._includes_stop = includes_stop
        self._min_tokens = min_tokens
        self._offset = offset
        self.num_tokens = 0
        self.is_scored = False
        self.cumulative_logprob = 0.0
        """Of its tokens, where they are scored."""
        self.finished: FinishReason | None = None

    def grow(self, event: Tokens | Finished, delta: Delta) -> None:
        """Adds to `delta` what an event brings; nothing once the choice has finished."""
        if self.finished is not None:
            return
        if isinstance(event, Finished):
            self._end(event, delta)
        elif self._has_stop or event.logprobs is not None:
            self._take_one_by_one(event, delta)
        else:
            self.num_tokens += len(event.token_ids)
            delta.token_ids += event.token_ids
            delta.text += self._decoder.push(event.token_ids)
        delta.finish_reason = self.finished

    def _take_one_by_one(self, event: Tokens, delta: Delta) -> None:
        for at, token_id in enumerate(event.token_ids):
            self._count(token_id, None if event.logprobs is None else event.logprobs[at], delta)
            piece = self._decoder.push([token_id])
            delta.text += self._searched(piece)
            if self.finished is not None:
                return

    def _end(self, event: Finished, delta: Delta) -> None:
        """The engine ended the request; what was held back is text after all."""
        if event.stop_token_id is not None:
            self._count(event.stop_token_id, event.stop_logprobs, delta)
            if self._includes_stop:
                delta.text += self._searched(self._decoder.push([event.stop_token_id]))
        if self.finished is None:
            delta.text += self._searched(self._decoder.flush())
        if self.finished is None:
            delta.text += self._stop.flush()
            self.finished = event.reason

    def _count(self, token_id: int, logprobs: TokenLogprobs | None, delta: Delta) -> None:
        self.num_tokens += 1
        delta.token_ids.append(token_id)
        if logprobs is not None:
            self.is_scored = True
            self.cumulative_logprob += logprobs.logprob
            delta.scored.append(ScoredToken(token_id, self._offset, logprobs))

    def _searched(self, piece: str) -> str:
        self._offset += len(piece)
        if not self._has_stop or self.num_tokens <= self._min_tokens:
            return piece
        text = self._stop.push(piece)
        if self._stop.matched is not None:
            self.finished = FinishReason.STOP
            return text + self._stop.matched if self._includes_stop else text
        return text
