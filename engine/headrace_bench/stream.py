"""A streamed answer as the client reads it: bytes to events, events to what was seen. Pure: times are
arguments.

`EventReader` splits server-sent events on LF or CRLF only: text inside JSON may hold other line separators.
`Transcript` keeps tokens' times and judges at the end whether the stream ended as OpenAI's does: one finish
reason, then `[DONE]`.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace_bench.record import Outcome

_UNFINISHED = frozenset({None, "abort", "error"})
"""Finish reasons that are no end of an answer; the last two are known from engines that leak them."""


class EventReader:
    """Server-sent events out of chunks of bytes that end anywhere."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def push(self, chunk: bytes) -> list[bytes]:
        """The data of each event that `chunk` completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
        return events


@dataclass(slots=True)
class Transcript:
    """What one stream has shown so far."""

    token_times_s: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    done: bool = False
    last_event_s: float | None = None

    def event(self, data: bytes, at_s: float) -> None:
        """Takes one event that arrived at `at_s`."""
        self.last_event_s = at_s
        if data == b"[DONE]":
            self.done = True
            return
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            self.error = f"an event is no JSON: {data[:80]!r}"
            return
        if not isinstance(document, dict):
            self.error = f"an event is no JSON object: {data[:80]!r}"
        elif document.get("error"):
            self.error = error_message(document)
        else:
            self._chunk(document, at_s)

    def _chunk(self, document: dict[str, Any], at_s: float) -> None:
        usage = document.get("usage") or {}
        self.prompt_tokens = usage.get("prompt_tokens", self.prompt_tokens)
        self.output_tokens = usage.get("completion_tokens", self.output_tokens)
        for choice in document.get("choices") or []:
            text = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            # The opening chunk of a chat has a role and no text: no token, and not the first one either.
            if text or (self.finish_reason and not self.token_times_s):
                self.token_times_s.append(at_s)
                self.texts.append(text)

    def verdict(self, lost: str | None = None) -> tuple[Outcome, str]:
        """How the stream ended; `lost` says how the connection was lost, if it was."""
        if self.error is not None:
            return (Outcome.BROKEN if self.token_times_s else Outcome.FAILED), self.error
        if self.done and self.finish_reason not in _UNFINISHED:
            return Outcome.OK, ""
        if lost is not None:
            return Outcome.BROKEN, lost
        if self.finish_reason in _UNFINISHED:
            return Outcome.BROKEN, f"the stream ended with finish_reason {self.finish_reason or 'missing'}"
        return Outcome.BROKEN, "the stream ended without [DONE]"


def error_message(document: Any) -> str:
    """The message of an OpenAI error document, or the document itself where it has another shape."""
    error = document.get("error", document) if isinstance(document, dict) else document
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or document)[:300]
