"""How tokens and their log probabilities are written: OpenAI's two shapes, and vLLM's for prompts.

Entries become JSON one by one as they come, in one buffer. An answer may hold many thousands: as Python
objects they would take ten times the memory, and all of it at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.server.output import ScoredToken

LEAST_LOGPROB = -9999.0
"""Stands for anything less likely: JSON has no infinity."""


class Logprobs(Protocol):
    """Gathers what is told of tokens."""

    def add(self, tokens: Iterable[ScoredToken]) -> None: ...
    def take(self) -> bytes:
        """JSON of what was added since this was last called."""
        ...


class Vocabulary(Protocol):
    """What the tokens of a model stand for."""

    def token_bytes(self, token_id: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Spelling:
    """Names tokens for one answer; with `as_ids` as `token_id:N`, which no two tokens share."""

    vocabulary: Vocabulary
    as_ids: bool = False

    def name(self, token_id: int, *, prefix: str = "") -> str:
        """A token's text; bytes that are no whole characters are escaped, with `prefix` in front."""
        if self.as_ids:
            return f"token_id:{token_id}"
        spelled = self.vocabulary.token_bytes(token_id)
        try:
            return spelled.decode()
        except UnicodeDecodeError:
            return prefix + spelled.decode(errors="backslashreplace")


class JsonList:
    """A JSON list, each entry written as it comes.

    The serializer's result takes a KiB of memory however short the entry is, so it is copied and given back.
    """

    def __init__(self) -> None:
        self._entries = bytearray()

    def add(self, entry: Any) -> None:
        if self._entries:
            self._entries += b","
        self._entries += orjson.dumps(entry)

    def take(self) -> bytes:
        """The list; it is empty after that."""
        entries, self._entries = self._entries, bytearray()
        return b"[" + entries + b"]"


class ChatLogprobs:
    """`{"content": [...], "refusal": null}` of what was added since it was last taken."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._content = JsonList()

    def add(self, tokens: Iterable[ScoredToken]) -> None:
        for token in tokens:
            self._content.add(self._entry(token))

    def take(self) -> bytes:
        return b'{"content":%b,"refusal":null}' % self._content.take()

    def _entry(self, token: ScoredToken) -> dict[str, Any]:
        assert token.logprobs is not None
        told = token.logprobs
        tops = zip(told.top_ids, told.top_logprobs, strict=True)
        return {
            **self._named(token.token_id, told.logprob),
            "top_logprobs": [self._named(token_id, logprob) for token_id, logprob in tops],
        }

    def _named(self, token_id: int, logprob: float) -> dict[str, Any]:
        return {
            "token": self._spelling.name(token_id),
            "logprob": max(logprob, LEAST_LOGPROB),
            "bytes": list(self._spelling.vocabulary.token_bytes(token_id)),
        }


class NoLogprobs:
    """For those that want none."""

    def add(self, tokens: Iterable[ScoredToken]) -> None:
        """Nothing is wanted of them."""

    def take(self) -> bytes:
        return b"null"


class CompletionLogprobs:
    """Four lists with an entry a token, of what was added since they were last taken.

    A token's `top_logprobs` have itself beside the likeliest, as OpenAI's do.
    """

    def __init__(self, spelling: Spelling, num_top: int) -> None:
        self._spelling = spelling
        self._num_top = num_top
        self._offsets, self._logprobs, self._names, self._likeliest = (JsonList() for _ in range(4))

    def add(self, tokens: Iterable[ScoredToken]) -> None:
        for token in tokens:
            told = token.logprobs
            self._offsets.add(token.offset)
            self._logprobs.add(None if told is None else max(told.logprob, LEAST_LOGPROB))
            self._names.add(self._name(token.token_id))
            self._likeliest.add(None if told is None else self._tops(token.token_id, told))

    def take(self) -> bytes:
        lists = (self._offsets, self._logprobs, self._names, self._likeliest)
        return b'{"text_offset":%b,"token_logprobs":%b,"tokens":%b,"top_logprobs":%b}' % tuple(
            each.take() for each in lists
        )

    def _tops(self, token_id: int, told: TokenLogprobs) -> dict[str, float]:
        tops = list(zip(told.top_ids, told.top_logprobs, strict=True))[: self._num_top]
        if token_id not in told.top_ids[: self._num_top]:
            tops.append((token_id, told.logprob))
        named: dict[str, float] = {}
        for top_id, logprob in tops:
            # Two tokens may have one name: the likelier one has it.
            named.setdefault(self._name(top_id), max(logprob, LEAST_LOGPROB))
        return named

    def _name(self, token_id: int) -> str:
        return self._spelling.name(token_id, prefix="bytes:")


def prompt_logprobs(
    spelling: Spelling, token_ids: Sequence[int], scores: Sequence[TokenLogprobs], num_top: int
) -> bytes:
    """VLLM's list: null for the first token, for each other one its own and the likeliest, by id."""
    entries = JsonList()
    entries.add(None)
    for token_id, told in zip(token_ids[1:], scores, strict=True):
        entries.add(_ranked(spelling, token_id, told, num_top))
    return entries.take()


def _ranked(spelling: Spelling, token_id: int, told: TokenLogprobs, num_top: int) -> dict[str, Any]:
    tops = zip(told.top_ids[:num_top], told.top_logprobs, range(1, num_top + 1), strict=False)
    return {
        str(each): {
            "logprob": max(logprob, LEAST_LOGPROB),
            "rank": rank,
            "decoded_token": spelling.name(each),
        }
        for each, logprob, rank in ((token_id, told.logprob, told.rank), *tops)
    }
