"""OpenAI's wire format, to the byte: whole answers, stream chunks, the model list.

A chunk is a template that is rendered once a stream and a JSON string that is encoded once a chunk;
building each chunk from a model costs fifty times as much.
"""

import time
from dataclasses import dataclass
from typing import Any

import orjson

from headrace_engine.core.request import FinishReason
from headrace_engine.server.output import Usage

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What stays the same over one answer, streamed or whole."""

    id: str
    model: str
    fingerprint: str
    created: int
    is_chat: bool

    def head(self, *, chunk: bool) -> dict[str, Any]:
        kind = (
            "text_completion" if not self.is_chat else "chat.completion.chunk" if chunk else "chat.completion"
        )
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


def now_unix_s() -> int:
    return int(time.time())


def usage_document(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def whole_answer(answer: Answer, texts: list[str], reasons: list[str | None], usage: Usage) -> bytes:
    """The body of an answer that is not streamed."""
    choices = [
        _choice(answer, index, text, reason)
        for index, (text, reason) in enumerate(zip(texts, reasons, strict=True))
    ]
    return orjson.dumps({**answer.head(chunk=False), "choices": choices, "usage": usage_document(usage)})


def _choice(answer: Answer, index: int, text: str, reason: str | None) -> dict[str, Any]:
    message = (
        {"message": {"role": "assistant", "content": text, "refusal": None}}
        if answer.is_chat
        else {"text": text}
    )
    return {"index": index, **message, "logprobs": None, "finish_reason": reason}


class Chunks:
    """Renders the events of one stream.

    With `include_usage` every chunk but the last carries `"usage": null`, or the usage so far where the
    client asked for it continuously.
    """

    def __init__(self, answer: Answer, *, include_usage: bool, continuous_usage: bool) -> None:
        self._is_chat = answer.is_chat
        self._head = b"data: " + orjson.dumps(answer.head(chunk=True))[:-1]
        self._include_usage = include_usage
        self.continuous_usage = continuous_usage

    def role(self, index: int, usage: Usage) -> bytes:
        """The first chunk of a choice of a chat; completions have none."""
        if not self._is_chat:
            return b""
        return self._chunk(index, b'"delta":{"role":"assistant","content":"","refusal":null}', b"null", usage)

    def text(self, index: int, text: str, usage: Usage) -> bytes:
        content = orjson.dumps(text)
        body = b'"delta":{"content":%b}' % content if self._is_chat else b'"text":%b' % content
        return self._chunk(index, body, b"null", usage)

    def finish(self, index: int, reason: FinishReason, usage: Usage) -> bytes:
        body = b'"delta":{}' if self._is_chat else b'"text":""'
        return self._chunk(index, body, orjson.dumps(reason.value), usage)

    def usage(self, usage: Usage) -> bytes:
        """The chunk after all choices, where the client asked for it."""
        if not self._include_usage:
            return b""
        return b'%b,"choices":[],"usage":%b}\n\n' % (self._head, orjson.dumps(usage_document(usage)))

    def _chunk(self, index: int, body: bytes, reason: bytes, usage: Usage) -> bytes:
        choice = b'{"index":%d,%b,"logprobs":null,"finish_reason":%b}' % (index, body, reason)
        return b'%b,"choices":[%b]%b}\n\n' % (self._head, choice, self._usage_so_far(usage))

    def _usage_so_far(self, usage: Usage) -> bytes:
        if self.continuous_usage:
            return b',"usage":%b' % orjson.dumps(usage_document(usage))
        return b',"usage":null' if self._include_usage else b""


def error_event(document: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(document)


def model_card(name: str, root: str, created: int, max_model_len: int) -> dict[str, Any]:
    """A model under one of its names; `root` is the first of them."""
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "headrace",
        "root": root,
        "parent": None,
        "max_model_len": max_model_len,
    }
