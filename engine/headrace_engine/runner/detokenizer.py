"""Tokens of a stream to text, as they come, without ever splitting a character.

For every decoder: what `push` returned, concatenated, and `flush` make exactly what decoding all ids at once
gives. Byte-level vocabularies (GPT-2, Llama 3, SmolLM2, Qwen) are decoded byte by byte without calling the
tokenizer; others by decoding a short window twice and emitting the difference.
"""

import codecs
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from tokenizers import Tokenizer, decoders

_BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")
MOST_SILENT = 64


class IncrementalDecoder(Protocol):
    """The text of one stream."""

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens complete; what is still half a character is held back."""
        ...

    def flush(self) -> str:
        """What was held back, once no token follows."""
        ...


class ByteLevelDecoder:
    """For vocabularies whose tokens are byte strings."""

    def __init__(self, bytes_of: Sequence[bytes]) -> None:
        self._bytes_of = bytes_of
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_ids: Iterable[int]) -> str:
        bytes_of = self._bytes_of
        return self._decoder.decode(b"".join(bytes_of[i] for i in token_ids if i < len(bytes_of)))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class WindowDecoder:
    """For every other vocabulary.

    A byte token (`<0xE2>`) may change what the byte tokens before it decode to, so text is held back until
    another kind of token follows. Of tokens that add no text no more than `MOST_SILENT` are kept, the first
    ones: each would be decoded again with every one that follows.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], skipped: Collection[int], byte_tokens: Collection[int]
    ) -> None:
        self._decode = decode
        self._skipped = skipped
        self._byte_tokens = byte_tokens
        self._window: list[int] = []
        self._emitted_tokens = 0

    def push(self, token_ids: Iterable[int]) -> str:
        self._window.extend(i for i in token_ids if i not in self._skipped)
        if not self._window or self._window[-1] in self._byte_tokens:
            return ""
        return self._emit()

    def flush(self) -> str:
        return self._emit() if self._window else ""

    def _emit(self) -> str:
        before = self._decode(self._window[: self._emitted_tokens])
        text = self._decode(self._window)
        if len(text) <= len(before):
            if len(self._window) - self._emitted_tokens > MOST_SILENT:
                del self._window[self._emitted_tokens + MOST_SILENT // 2 :]
            return ""
        self._window = self._window[self._emitted_tokens :]
        self._emitted_tokens = len(self._window)
        return text[len(before) :]


def token_bytes(tokenizer: Tokenizer) -> list[bytes] | None:
    """The bytes of every id of a byte-level vocabulary, added tokens by name; None for another kind."""
    if not isinstance(tokenizer.decoder, decoders.ByteLevel):
        return None
    byte_of = _byte_of_character()
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    found = [b""] * (1 + max(vocabulary.values(), default=-1))
    for token, index in vocabulary.items():
        found[index] = _to_bytes(token, byte_of)
    return found


def without(bytes_of: Sequence[bytes], skipped: Collection[int]) -> list[bytes]:
    """The same, where some ids stand for nothing."""
    return [b"" if index in skipped else each for index, each in enumerate(bytes_of)]


def piece_bytes(piece: str) -> bytes:
    """What a piece of a SentencePiece vocabulary stands for: a byte token its byte, a low line a space."""
    if _BYTE_TOKEN.fullmatch(piece):
        return bytes([int(piece[3:-1], 16)])
    return piece.replace("\u2581", " ").encode()


def byte_token_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """The ids of the tokens that stand for one byte each, in vocabularies that fall back to them."""
    return frozenset(index for token, index in tokenizer.get_vocab().items() if _BYTE_TOKEN.fullmatch(token))


def _to_bytes(token: str, byte_of: dict[str, int]) -> bytes:
    try:
        return bytes(byte_of[character] for character in token)
    except KeyError:  # an added token, which stands for itself
        return token.encode()


def _byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 and on, in
    order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
