"""OpenAI's wire format, to the byte: what answers share, stream chunks, the model list.

A chunk is a template that is rendered once a stream and a JSON string that is encoded once a chunk;
building each chunk from a model costs fifty times as much.
"""

import time
from collections.abc import Sequence
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

    def role(self, index: int, usage: Usage, prompt_token_ids: Sequence[int] | None = None) -> bytes:
        """The first chunk of a choice of a chat; completions have none."""
        if not self._is_chat:
            return b""
        body = b'"delta":{"role":"assistant","content":"","refusal":null}'
        about = b"" if prompt_token_ids is None else b',"prompt_token_ids":%b' % _ids(prompt_token_ids)
        return self._chunk(index, body, usage, about=about)

    def text(
        self, index: int, text: str, usage: Usage, *, logprobs: bytes = b"null", more: bytes = b""
    ) -> bytes:
        """`more` are further members of the choice, each with a comma in front."""
        content = orjson.dumps(text)
        body = b'"delta":{"content":%b}' % content if self._is_chat else b'"text":%b' % content
        return self._chunk(index, body, usage, logprobs=logprobs, more=more)

    def finish(self, index: int, reason: FinishReason, usage: Usage) -> bytes:
        body = b'"delta":{}' if self._is_chat else b'"text":""'
        return self._chunk(index, body, usage, reason=orjson.dumps(reason.value))

    def usage(self, usage: Usage) -> bytes:
        """The chunk after all choices, where the client asked for it."""
        if not self._include_usage:
            return b""
        return b'%b,"choices":[],"usage":%b}\n\n' % (self._head, orjson.dumps(usage_document(usage)))

    def token_ids(self, token_ids: Sequence[int], prompt_token_ids: Sequence[int] | None) -> bytes:
        """Members of a choice that name its ids; those of its prompt in the first chunk of a completion."""
        ids = b',"token_ids":%b' % _ids(token_ids)
        if self._is_chat or prompt_token_ids is None:
            return ids
        return b',"prompt_token_ids":%b%b' % (_ids(prompt_token_ids), ids)

    def _chunk(
        self,
        index: int,
        body: bytes,
        usage: Usage,
        *,
        logprobs: bytes = b"null",
        reason: bytes = b"null",
        more: bytes = b"",
        about: bytes = b"",
    ) -> bytes:
        choice = b'{"index":%d,%b,"logprobs":%b,"finish_reason":%b%b}' % (index, body, logprobs, reason, more)
        return b'%b,"choices":[%b]%b%b}\n\n' % (self._head, choice, about, self._usage_so_far(usage))

    def _usage_so_far(self, usage: Usage) -> bytes:
        if self.continuous_usage:
            return b',"usage":%b' % orjson.dumps(usage_document(usage))
        return b',"usage":null' if self._include_usage else b""


def _ids(token_ids: Sequence[int]) -> bytes:
    return orjson.dumps(list(token_ids))


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
